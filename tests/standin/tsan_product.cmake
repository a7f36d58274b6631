# `flotilla_tsan`: the product with everything under TSan that runs while streams of a device do. Rooms that only plan, read and write are the
# build's own: each runs on one thread, and they are two thirds of the lines.
set(under_tsan base gpu nccl mpi store signals comm compute data checkpoint probe train session monitor)

# tsan_room(room): its sources once more, under TSan. What a room compiles with options of its own (vector kernels, images of machine code)
# stays in the room's library.
function(tsan_room room)
  get_target_property(folder flotilla_${room} SOURCE_DIR)
  get_target_property(sources flotilla_${room} SOURCES)
  set(again "")
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
    get_source_file_property(options ${source} DIRECTORY ${folder} COMPILE_OPTIONS)
    get_source_file_property(alone ${source} DIRECTORY ${folder} SKIP_UNITY_BUILD_INCLUSION)
    if(NOT options AND NOT alone)
      list(APPEND again ${source})
    endif()
  endforeach()
  add_library(tsan_${room} OBJECT EXCLUDE_FROM_ALL ${again})
  set_target_properties(tsan_${room} PROPERTIES UNITY_BUILD ON)
  get_target_property(links flotilla_${room} LINK_LIBRARIES)
  target_include_directories(tsan_${room} PRIVATE ${CMAKE_SOURCE_DIR}/include ${folder})
  target_link_libraries(tsan_${room} PRIVATE ${links})
  # -g1: lines in reports, and two thirds of the time to compile.
  target_compile_options(tsan_${room} PRIVATE ${with_tsan} -fno-omit-frame-pointer -O1 -g1)
  target_compile_definitions(tsan_${room} PRIVATE FLOTILLA_VERSION="${PROJECT_VERSION}")
endfunction()

add_executable(flotilla_tsan EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/src/app/main.cpp ${CMAKE_SOURCE_DIR}/src/app/common/bounded_spinning.cpp)
foreach(room IN LISTS under_tsan)
  tsan_room(${room})
  target_sources(flotilla_tsan PRIVATE $<TARGET_OBJECTS:tsan_${room}>)  # before the rooms' libraries, so these are what is linked
endforeach()
target_compile_options(flotilla_tsan PRIVATE ${with_tsan} -O1 -g1)
target_link_options(flotilla_tsan PRIVATE ${with_tsan})
target_link_libraries(flotilla_tsan PRIVATE flotilla_commands flotilla_warnings)
# What the product loads: their copies of streams count, so they are under TSan, too.
standin_blas(_tsan ${tsan_folder} ${with_tsan})
standin_nccl(_tsan ${tsan_folder}_nccl ${with_tsan})
set_target_properties(standin_blas_tsan standin_nccl_tsan PROPERTIES EXCLUDE_FROM_ALL ON)
add_dependencies(flotilla_tsan standin_blas_tsan standin_nccl_tsan)
add_dependencies(all_tier flotilla_tsan)

list(JOIN FLOTILLA_MPI_FLAGS ";" mpi_flags)
flotilla_add_entry(NAME standin_product_tsan COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/product_tsan.sh ${CMAKE_SOURCE_DIR} $<TARGET_FILE:flotilla_tsan> ${tsan_folder} ${MPIEXEC_EXECUTABLE} ${mpi_flags})
set_tests_properties(standin_product_tsan PROPERTIES LABELS "room.gpu;mpi;standin;all")
