# cmake -DNVCC= -DHOST= -DOPTIONS= -DSOURCE= -DOUTPUT= -P: compiles kernels. What ptxas says of them (registers, spills) is kept in OUTPUT.log.
execute_process(COMMAND ${NVCC} -std=c++20 --expt-relaxed-constexpr -ccbin ${HOST} ${OPTIONS} -Xptxas -v -o ${OUTPUT} ${SOURCE}
  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
file(WRITE ${OUTPUT}.log "${said}")
if(failed)
  message(FATAL_ERROR "${said}")
endif()
