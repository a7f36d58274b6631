extern "C" __global__ void one(float* x) { x[threadIdx.x] = 1; }
