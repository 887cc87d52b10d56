/* A driver of one device that keeps "device" memory in the host's: for tests of what fjit hands to
   cuda.bindings. Kernels are not run; their words are noted in the file that FJIT_FAKE_LOG names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int R;
typedef unsigned long long P;

struct node { /* CUDA_KERNEL_NODE_PARAMS_v2 */
  void *function;
  unsigned grid[3], block[3], shared;
  void **params, **extra;
  void *kernel, *context;
};

static void note(const char *text, long long a, long long b) {
  const char *path = getenv("FJIT_FAKE_LOG");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (!file) return;
  fprintf(file, "%s %lld %lld\n", text, a, b);
  fclose(file);
}

static R asked(void) {
  const char *code = getenv("FJIT_FAKE_INIT");
  return code ? atoi(code) : 0;
}

R cuInit(unsigned flags) { return asked(); }
R cuDriverGetVersion(int *version) { *version = 13000; return 0; }
R cuGetErrorString(R code, const char **text) { *text = "as the fake was told"; return 0; }
R cuDeviceGetCount(int *count) { *count = 1; return 0; }
R cuDeviceGetName(char *name, int length, int device) { snprintf(name, length, "Fake GPU"); return 0; }
R cuDeviceTotalMem(size_t *bytes, int device) { *bytes = 1ull << 34; return 0; }
R cuDeviceGetAttribute(int *value, int which, int device) {
  *value = which == 75 ? 9 : which == 76 ? 0 : which == 16 ? 132 : 1;
  return 0;
}
R cuPointerGetAttribute(void *data, int which, P address) { *(int *)data = 0; return 0; }
R cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)100; return 0; }
static __thread int depth;
R cuCtxPushCurrent(void *context) { depth++; return context == (void *)100 ? 0 : 201; }
R cuCtxPopCurrent(void **context) { *context = (void *)100; return depth-- > 0 ? 0 : 201; }
R cuCtxSynchronize(void) { return 0; }
R cuMemPoolCreate(void **pool, const int *how) {
  note("pool", how[0], how[3]); /* allocation type, device */
  *pool = (void *)200;
  return 0;
}
R cuMemPoolSetAttribute(void *pool, int which, void *value) {
  note("keep", which, *(long long *)value);
  return pool == (void *)200 ? 0 : 1;
}
R cuMemPoolTrimTo(void *pool, size_t keep) { return 0; }
R cuMemAllocFromPoolAsync(P *address, size_t bytes, void *pool, void *stream) {
  if (bytes > (1ull << 33)) return 2;
  *address = (P)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
  return 0;
}
R cuMemFreeAsync(P address, void *stream) { free((void *)(uintptr_t)address); return 0; }
R cuMemAlloc(P *address, size_t bytes) { return cuMemAllocFromPoolAsync(address, bytes, 0, 0); }
R cuMemFree(P address) { return cuMemFreeAsync(address, 0); }
R cuMemcpyHtoDAsync(P to, const void *from, size_t bytes, void *stream) {
  memcpy((void *)(uintptr_t)to, from, bytes);
  return 0;
}
R cuMemcpyDtoHAsync(void *to, P from, size_t bytes, void *stream) {
  memcpy(to, (void *)(uintptr_t)from, bytes);
  return 0;
}
R cuMemcpyDtoDAsync(P to, P from, size_t bytes, void *stream) {
  memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
  return 0;
}
R cuMemsetD8Async(P to, unsigned char value, size_t bytes, void *stream) {
  memset((void *)(uintptr_t)to, value, bytes);
  return 0;
}
R cuModuleLoadData(void **module, const void *image) {
  note("load", memcmp(image, "\177ELF", 4), 0);
  *module = (void *)300;
  return 0;
}
R cuModuleGetFunction(void **function, void *module, const char *name) {
  if (strncmp(name, "phase", 5)) return 500;
  *function = (void *)400;
  return 0;
}
R cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                 unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
  if (function != (void *)400 || gz != 1 || bz != 1 || shared || extra || !depth) return 1;
  note("grid", gx, gy);
  note("block", bx, by);
  note("words", *(long long *)params[1], (long long)(uintptr_t)stream);
  return 0;
}
static int nodes;
R cuGraphCreate(void **graph, unsigned flags) { nodes = 0; *graph = (void *)600; return flags; }
R cuGraphAddKernelNode(void **node, void *graph, void *const *before, size_t count,
                       const struct node *how) {
  if (graph != (void *)600 || count != (nodes > 0) || (count && *before != (void *)(700L + nodes)))
    return 1;
  if (how->function != (void *)400 || how->shared || how->extra || how->grid[2] != 1) return 1;
  note("node", how->grid[1], *(long long *)how->params[1]);
  *node = (void *)(700L + ++nodes);
  return 0;
}
R cuGraphInstantiateWithFlags(void **run, void *graph, P flags) { *run = (void *)800; return (R)flags; }
R cuGraphDestroy(void *graph) { return graph == (void *)600 ? 0 : 1; }
R cuGraphLaunch(void *run, void *stream) {
  note("graph", nodes, 0);
  return run == (void *)800 && depth ? 0 : 1;
}
R cuGraphExecDestroy(void *run) { return run == (void *)800 ? 0 : 1; }
R cuStreamSynchronize(void *stream) {
  const char *code = getenv("FJIT_FAKE_WAIT");
  return code ? atoi(code) : 0;
}
R cuEventCreate(void **event, unsigned flags) { *event = (void *)500; return 0; }
R cuEventRecord(void *event, void *stream) { return event == (void *)500 ? 0 : 400; }
R cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return flags; }
R cuEventElapsedTime(float *ms, void *start, void *stop) { *ms = 2.5f; return 0; }
R cuEventDestroy(void *event) { return 0; }

R cuGetProcAddress_v2(const char *symbol, void **pointer, int version, P flags, int *status) {
  *pointer = strcmp(symbol, "cuGetProcAddress") ? dlsym(RTLD_DEFAULT, symbol)
                                                : (void *)cuGetProcAddress_v2;
  if (!*pointer) {
    Dl_info mine;
    dladdr((void *)cuInit, &mine);
    void *self = dlopen(mine.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *pointer = dlsym(self, symbol);
  }
  if (status) *status = *pointer ? 0 : 1;
  return *pointer ? 0 : 500;
}
