# flotilla_add_test(NAME ROOM room SOURCES ... [LINKS target...] [LABELS extra...] [TIMEOUT s] [COST s] [SLOW PATTERN])
#   a GoogleTest program, one CTest entry, label room.<room>. Tests of a GoogleTest pattern that take seconds become an entry of their own,
#   NAME.slow with the label slow; the inner loop leaves them out.
# flotilla_add_mpi_test(NAME ROOM room RANKS n... SOURCES ... [LINKS ...] [LABELS ...] [TIMEOUT s])
#   the same program under mpirun, one CTest entry per rank count: NAME.npN with labels room.<room>;mpi.
# A time limit is there for what hangs: ten times as long and more as a test takes on two cores that it shares with others.
# COST: seconds, about, where a test takes many: CTest starts those first. PROCESSORS 4 is for tests that judge speeds: tests/run.sh then
# runs one other beside them. All others share the cores: ranks yield while they wait, and what starts processes waits for most of its time.
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

function(flotilla_test_program name room sources links)
  add_executable(${name} ${sources})
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_precompile_headers(${name} REUSE_FROM test_headers)
  get_target_property(private_headers flotilla_${room} SOURCE_DIR)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests ${private_headers})
  target_link_libraries(${name} PRIVATE flotilla::${room} ${links} GTest::gtest flotilla_warnings)
endfunction()

function(flotilla_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 T "" "ROOM;TIMEOUT;COST;SLOW" "SOURCES;LINKS;LABELS")
  flotilla_test_program(${name} ${T_ROOM} "${T_SOURCES}" "${T_LINKS};GTest::gtest_main")
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  if(NOT T_COST)
    set(T_COST 1)
  endif()
  if(T_SLOW)
    set(quick --gtest_filter=-${T_SLOW})
    add_test(NAME ${name}.slow COMMAND ${name} --gtest_brief=1 --gtest_filter=${T_SLOW})
    set_tests_properties(${name}.slow PROPERTIES LABELS "room.${T_ROOM};slow;${T_LABELS}" TIMEOUT ${T_TIMEOUT} COST 10
      FAIL_REGULAR_EXPRESSION "[^0-9]0 tests from")  # a pattern that no test matches any more
  endif()
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1 ${quick})
  set_tests_properties(${name} PROPERTIES LABELS "room.${T_ROOM};${T_LABELS}" TIMEOUT ${T_TIMEOUT} COST ${T_COST})
endfunction()

function(flotilla_add_mpi_test name)
  cmake_parse_arguments(PARSE_ARGV 1 T "" "ROOM;TIMEOUT" "SOURCES;LINKS;LABELS;RANKS")
  flotilla_test_program(${name} ${T_ROOM} "${T_SOURCES};${CMAKE_SOURCE_DIR}/tests/mpi_gtest_main.cpp" "${T_LINKS};MPI::MPI_CXX")
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  foreach(ranks IN LISTS T_RANKS)
    add_test(NAME ${name}.np${ranks}
      COMMAND ${MPIEXEC_EXECUTABLE} ${FLOTILLA_MPI_FLAGS} -n ${ranks} $<TARGET_FILE:${name}> --gtest_brief=1)
    set_tests_properties(${name}.np${ranks} PROPERTIES LABELS "room.${T_ROOM};mpi;np${ranks};${T_LABELS}"
      TIMEOUT ${T_TIMEOUT} COST ${ranks} ENVIRONMENT "${FLOTILLA_MPI_ENVIRONMENT}")
  endforeach()
endfunction()
