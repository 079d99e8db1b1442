/* CUDA's driver and the part of its runtime that cuDNN's frontend calls, on a machine without a GPU: enough to load cuDNN and to plan
   graphs for a described device. Nothing can be launched. */
#define _GNU_SOURCE
#include <dlfcn.h>

enum { NO_DEVICE = 100, NOT_FOUND = 500 };
#define NONE(name) int name() { return NO_DEVICE; }

int cuDriverGetVersion(int *version) { *version = 13050; return 0; }
int cuDeviceGetCount(int *count) { *count = 0; return NO_DEVICE; }
int cuCtxGetCurrent(void **context) { *context = 0; return 0; }
int cuGetExportTable(void **table, const void *id) { *table = 0; return NOT_FOUND; }
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, void *status) {
    *function = dlsym(RTLD_DEFAULT, name);
    return *function ? 0 : NOT_FOUND;
}
NONE(cuInit) NONE(cuDeviceGet) NONE(cuGetErrorString) NONE(cuGetErrorName) NONE(cuModuleGetFunction) NONE(cuModuleLoadData)
NONE(cuModuleUnload) NONE(cuTensorMapEncodeIm2col) NONE(cuTensorMapEncodeTiled) NONE(cuCtxGetLimit) NONE(cuCtxPopCurrent)
NONE(cuCtxPushCurrent) NONE(cuStreamGetCtx) NONE(cuLinkCreate) NONE(cuLinkAddData) NONE(cuLinkComplete) NONE(cuLinkDestroy)
NONE(cuLaunchKernel) NONE(cuLaunchCooperativeKernel) NONE(cuLaunchKernelEx) NONE(cuLibraryLoadData) NONE(cuLibraryLoadFromFile)
NONE(cuLibraryGetKernel) NONE(cuLibraryUnload) NONE(cuKernelSetAttribute) NONE(cuKernelGetAttribute) NONE(cuKernelGetFunction)
NONE(cuOccupancyMaxPotentialClusterSize)

int cudaGetDevice(int *device) { *device = 0; return 0; }
int cudaRuntimeGetVersion(int *version) { *version = 12090; return 0; }
int cudaGetLastError(void) { return 0; }
const char *cudaGetErrorString(int error) { return "there is no GPU"; }
int cudaDeviceGetAttribute(int *value, int attribute, int device) {
    /* the compute capability, the number of multiprocessors, shared memory with and without opting in */
    *value = attribute == 75 ? 9 : attribute == 16 ? 132 : attribute == 97 ? 232448 : attribute == 8 ? 49152 : 0;
    return 0;
}
int cudaGetDeviceProperties(int *properties, int device) {
    properties[90] = 9, properties[91] = 0; /* the compute capability, in CUDA 12's struct */
    return 0;
}
int cudaStreamIsCapturing(void *stream, int *status) { *status = 0; return 0; }
int cudaThreadExchangeStreamCaptureMode(int *mode) { return 0; }
