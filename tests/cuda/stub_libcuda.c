/* A CUDA driver without devices, as libcuda.so.1: NVIDIA's libraries load on it, and describe what they would compute. */

#define NO_DEVICE 100

int cuInit(unsigned flags) { return NO_DEVICE; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 0; return NO_DEVICE; }
int cuDeviceGet(int *device, int ordinal) { return NO_DEVICE; }
int cuCtxGetCurrent(void **context) { *context = 0; return NO_DEVICE; }
int cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags, void *status) { *function = 0; return NO_DEVICE; }
int cuGetExportTable(const void **table, const void *id) { *table = 0; return NO_DEVICE; }
