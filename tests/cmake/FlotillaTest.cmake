# flotilla_add_test(NAME ROOM room SOURCES ... [LINKS target...] [LABELS extra...] [ENVIRONMENT ...] [SLOW [PART=]PATTERN...] [OF_ALL PATTERN])
#   a GoogleTest program, one a room: a file's namespace ends in the file's name, for 16 files compile as one unit. One CTest entry, label
#   room.<room>. Tests of a GoogleTest pattern that take seconds become an entry of their own, NAME.PART (NAME.slow where no part is named)
#   with the label slow; the inner loop leaves them out. Those of another pattern are NAME.all with the label all.
# flotilla_add_mpi_test(NAME ROOM room RANKS n... [RANKS_OF_ALL n...] SOURCES ... [LINKS ...] [LABELS ...])
#   the same program under mpirun, one CTest entry per rank count: NAME.npN with labels room.<room>;mpi;npN.
# flotilla_add_entry(NAME name COMMAND ...)
#   as add_test. Every entry is added by it, for each directory settles its entries at its end (flotilla_settle_entries).
#
# Labels with a meaning (docs/design/ci.md has the tiers):
#   all     the entry belongs to the tier `tests/run.sh --all`; the others are the default tier, which CI runs. Implies slow.
#   slow    the inner loop leaves it out: said so, or recorded with more seconds than FLOTILLA_INNER_LOOP_SECONDS
#   long    said to be slow: `tests/run.sh --quick` leaves it out, too; set here
#   waits   it starts processes, but waits for most of its time: it takes one slot
#   alone   it judges speeds: nothing runs beside it
set(FLOTILLA_MPI_FLAGS --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1
    --mca btl_base_warn_component_unused 0 CACHE STRING "Flags for mpirun in tests")

# Open MPI keeps memory to the end and is not instrumented: its leaks and races are not ours.
set(FLOTILLA_MPI_ENVIRONMENT OMP_NUM_THREADS=1)
if(FLOTILLA_SANITIZE MATCHES "address")
  # Looking for our own leaks among them takes ASAN_OPTIONS=fast_unwind_on_malloc=0, LSAN_OPTIONS=suppressions=.../lsan.supp and patience.
  list(APPEND FLOTILLA_MPI_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
elseif(FLOTILLA_SANITIZE MATCHES "thread")
  list(APPEND FLOTILLA_MPI_ENVIRONMENT
    TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/cmake/tsan.supp:ignore_noninstrumented_modules=1:print_suppressions=0)
endif()

# What only `tests/run.sh --all` builds: add_dependencies(all_tier target).
add_custom_target(all_tier)

# Seconds of entries as `tests/run.sh --record` saw them: CTest starts the long ones first, and tests/progress.awk tells the time left.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cmake/costs.txt)
file(STRINGS ${CMAKE_SOURCE_DIR}/tests/cmake/costs.txt FLOTILLA_COSTS REGEX "^[^#]")
foreach(line IN LISTS FLOTILLA_COSTS)
  string(REPLACE " " ";" line "${line}")
  list(GET line 0 name)
  list(GET line 1 FLOTILLA_COST_${name})
endforeach()

set(FLOTILLA_INNER_LOOP_SECONDS 2)

function(flotilla_add_entry)
  set(call "add_test(")
  math(EXPR last "${ARGC} - 1")
  foreach(i RANGE ${last})  # one by one: an argument may hold a ';'
    string(APPEND call " [==[${ARGV${i}}]==]")
  endforeach()
  cmake_language(EVAL CODE "${call})")
  cmake_language(DEFER GET_CALL_IDS ids)
  if(NOT flotilla_settle IN_LIST ids)
    cmake_language(DEFER ID flotilla_settle CALL flotilla_settle_entries)
  endif()
endfunction()

# Slots that an entry takes of those that tests/run.sh gives, two for each core: a slot is a thread that computes.
function(flotilla_slots_of labels variable)
  set(slots 1)
  if("waits" IN_LIST labels)
    set(slots 1)
  elseif(labels MATCHES "(^|;)np([0-9]+)(;|$)")
    set(slots ${CMAKE_MATCH_2})
  elseif("mpi" IN_LIST labels OR ("room.compute" IN_LIST labels AND NOT "standin" IN_LIST labels))
    set(slots 2)  # two ranks or two threads of OpenMP
  endif()
  set(${variable} ${slots} PARENT_SCOPE)
endfunction()

# One rule for all entries of a directory: how long a hang may last, slots, order, tiers.
function(flotilla_settle_entries)
  get_property(entries DIRECTORY PROPERTY TESTS)
  foreach(entry IN LISTS entries)
    get_property(labels TEST ${entry} PROPERTY LABELS)
    if("all" IN_LIST labels AND NOT "slow" IN_LIST labels)
      set_property(TEST ${entry} APPEND PROPERTY LABELS slow)
    elseif("slow" IN_LIST labels)
      set_property(TEST ${entry} APPEND PROPERTY LABELS long)
    elseif(DEFINED FLOTILLA_COST_${entry} AND FLOTILLA_COST_${entry} GREATER ${FLOTILLA_INNER_LOOP_SECONDS})
      set_property(TEST ${entry} APPEND PROPERTY LABELS slow)
    endif()
    flotilla_slots_of("${labels}" slots)
    get_property(cost TEST ${entry} PROPERTY COST)
    if(NOT cost)
      set(cost 1)
      if(DEFINED FLOTILLA_COST_${entry})
        set(cost ${FLOTILLA_COST_${entry}})
      endif()
    endif()
    # A time limit ends what hangs and decides nothing else: of `--all`, the storm of 200 faults takes hours.
    set_tests_properties(${entry} PROPERTIES TIMEOUT 14400 PROCESSORS ${slots} COST ${cost})
    if("alone" IN_LIST labels)
      set_tests_properties(${entry} PROPERTIES RUN_SERIAL ON)
    endif()
  endforeach()
endfunction()

function(flotilla_test_program name room sources links)
  add_executable(${name} ${sources})
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_precompile_headers(${name} REUSE_FROM test_headers)
  get_target_property(private_headers flotilla_${room} SOURCE_DIR)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests ${private_headers})
  target_link_libraries(${name} PRIVATE flotilla::${room} ${links} GTest::gtest flotilla_warnings)
endfunction()

# flotilla_add_part(SUFFIX FILTER more labels...): an entry of flotilla_add_test, whose variables it sees.
function(flotilla_add_part suffix filter)
  flotilla_add_entry(NAME ${name}${suffix} COMMAND ${name} --gtest_brief=1 ${filter})
  set_tests_properties(${name}${suffix} PROPERTIES LABELS "room.${T_ROOM};${T_LABELS};${ARGN}" ENVIRONMENT "${T_ENVIRONMENT}")
  if(suffix)  # a pattern that no test matches any more
    set_tests_properties(${name}${suffix} PROPERTIES FAIL_REGULAR_EXPRESSION "[^0-9]0 tests from")
  endif()
endfunction()

function(flotilla_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 T "" "ROOM;OF_ALL" "SOURCES;LINKS;LABELS;ENVIRONMENT;SLOW")
  flotilla_test_program(${name} ${T_ROOM} "${T_SOURCES}" "${T_LINKS};GTest::gtest_main")
  set(rest "")
  foreach(slow IN LISTS T_SLOW)
    set(part slow)
    set(pattern "${slow}")
    if(slow MATCHES "^([a-z_0-9]+)=(.*)$")
      set(part ${CMAKE_MATCH_1})
      set(pattern "${CMAKE_MATCH_2}")
    endif()
    flotilla_add_part(.${part} --gtest_filter=${pattern} slow)
    list(APPEND rest ${pattern})
  endforeach()
  if(T_OF_ALL)
    flotilla_add_part(.all --gtest_filter=${T_OF_ALL} all)
    list(APPEND rest ${T_OF_ALL})
  endif()
  list(JOIN rest ":" rest)
  if(rest)
    set(rest --gtest_filter=-${rest})
  endif()
  flotilla_add_part("" "${rest}")
endfunction()

function(flotilla_add_mpi_test name)
  cmake_parse_arguments(PARSE_ARGV 1 T "" "ROOM" "SOURCES;LINKS;LABELS;RANKS;RANKS_OF_ALL")
  flotilla_test_program(${name} ${T_ROOM} "${T_SOURCES};${CMAKE_SOURCE_DIR}/tests/mpi_gtest_main.cpp" "${T_LINKS};MPI::MPI_CXX")
  foreach(ranks IN LISTS T_RANKS T_RANKS_OF_ALL)
    set(tier "")
    if(ranks IN_LIST T_RANKS_OF_ALL)
      set(tier all)
    endif()
    flotilla_add_entry(NAME ${name}.np${ranks}
      COMMAND ${MPIEXEC_EXECUTABLE} ${FLOTILLA_MPI_FLAGS} -n ${ranks} $<TARGET_FILE:${name}> --gtest_brief=1)
    set_tests_properties(${name}.np${ranks} PROPERTIES LABELS "room.${T_ROOM};mpi;np${ranks};${T_LABELS};${tier}"
      ENVIRONMENT "${FLOTILLA_MPI_ENVIRONMENT}")
  endforeach()
endfunction()
