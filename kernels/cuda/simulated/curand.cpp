// cuRAND: candle makes a generator with every device; prefold draws no numbers.
#include <curand.h>

struct curandGenerator_st {};

curandStatus_t curandCreateGenerator(curandGenerator_t *generator, curandRngType_t) {
    *generator = new curandGenerator_st;
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandDestroyGenerator(curandGenerator_t generator) {
    delete generator;
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t, unsigned long long) { return CURAND_STATUS_SUCCESS; }
curandStatus_t curandSetStream(curandGenerator_t, cudaStream_t) { return CURAND_STATUS_SUCCESS; }
