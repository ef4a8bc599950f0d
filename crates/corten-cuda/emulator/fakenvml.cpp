// A management library whose GPUs are those of the emulated driver, whatever CUDA_VISIBLE_DEVICES leaves.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define API(name, parameters) extern "C" __attribute__((visibility("default"))) int name parameters
static unsigned devices() { const char *text = getenv("CUSIM_DEVICES"); return text ? atoi(text) : 2; }
static void identity(unsigned index, char *text) { sprintf(text, "GPU-656d756c-6174-6564-2064-6576696365%02x", index); }

API(nvmlInit_v2, ()) { return 0; }
extern "C" __attribute__((visibility("default"))) const char *nvmlErrorString(int) { return "emulated error"; }
API(nvmlDeviceGetCount_v2, (unsigned *count)) { return *count = devices(), 0; }
API(nvmlDeviceGetHandleByIndex_v2, (unsigned index, void **device)) {
  return index < devices() ? *device = (void *)(size_t)(index + 1), 0 : 2;
}
API(nvmlDeviceGetUUID, (size_t device, char *text, unsigned)) { return identity(device - 1, text), 0; }
API(nvmlDeviceGetHandleByUUID, (const char *wanted, void **device)) {
  char text[96];
  for (unsigned i = 0; i < devices(); i++)
    if (identity(i, text), !strcmp(text, wanted)) return *device = (void *)(size_t)(i + 1), 0;
  return 6;
}
API(nvmlDeviceGetUtilizationRates, (size_t, unsigned *rates)) { return rates[0] = 30, rates[1] = 20, 0; }
API(nvmlDeviceGetMemoryInfo, (size_t, unsigned long long *info)) { return info[0] = 4ull << 30, info[1] = 3ull << 30, info[2] = 1ull << 30, 0; }
API(nvmlDeviceGetTemperature, (size_t device, int, unsigned *degrees)) { return *degrees = 40 + device, 0; }
API(nvmlDeviceGetPowerUsage, (size_t, unsigned *milliwatts)) { return *milliwatts = 90000, 0; }
API(nvmlDeviceGetClockInfo, (size_t, int, unsigned *mhz)) { return *mhz = 1980, 0; }
struct Process { unsigned pid; unsigned long long used; unsigned instance, compute; };
API(nvmlDeviceGetComputeRunningProcesses_v3, (size_t device, unsigned *count, Process *found)) {
  if (!found) return *count = 1, 7;
  *count = device == 1;
  if (*count) found[0] = {4321, 512ull << 20, 0, 0};
  return 0;
}
