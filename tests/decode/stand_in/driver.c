/* A stand-in for NVIDIA's driver: what FFmpeg's NVDEC code asks of libcuda and libnvcuvid.

   It decodes nothing. A picture that is to be decoded is looked up by the bytes that FFmpeg hands
   over for it, in the folder STAND_IN_PICTURES, where the CPU's picture lies: see learn() in
   stand_in/__init__.py. So FFmpeg's part is real (parsing, references, order, surfaces, bringing
   frames down), and what a chip makes of the bytes is not shown. "Memory of the GPU" is malloc's. */

#include <ffnvcodec/dynlink_cuda.h>
#include <ffnvcodec/dynlink_cuviddec.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unused.h"

enum { OK = 0, INVALID_VALUE = 1, INVALID_DEVICE = 101 };
enum { MOST_SURFACES = 32, DEEPEST = 64, PITCH = 512 };

static int primary_context;
static int primary_users;
static __thread void *contexts[DEEPEST];
static __thread int depth;

int cuInit(unsigned flags) { return OK; }

int cuDeviceGetCount(int *count) {
  *count = 1;
  return OK;
}

int cuDeviceGet(int *device, int number) {
  *device = number;
  return number == 0 ? OK : INVALID_DEVICE;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = PITCH;
  return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
  *context = &primary_context;
  primary_users++;
  return OK;
}

int cuDevicePrimaryCtxRelease(int device) {
  primary_users--;
  return OK;
}

int cuDevicePrimaryCtxSetFlags(int device, unsigned flags) { return OK; }

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *is_active) {
  *flags = CU_CTX_SCHED_BLOCKING_SYNC;
  *is_active = primary_users > 0;
  return OK;
}

int cuCtxPushCurrent_v2(void *context) {
  if (depth == DEEPEST) return INVALID_VALUE;
  contexts[depth++] = context;
  return OK;
}

int cuCtxPopCurrent_v2(void **context) {
  if (depth == 0) return INVALID_VALUE;
  *context = contexts[--depth];
  return OK;
}

int cuGetErrorName(int error, const char **name) {
  *name = error == INVALID_DEVICE ? "CUDA_ERROR_INVALID_DEVICE" : "CUDA_ERROR_INVALID_VALUE";
  return OK;
}

int cuGetErrorString(int error, const char **words) { return cuGetErrorName(error, words); }

int cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
  *address = (CUdeviceptr)malloc(size);
  return OK;
}

int cuMemFree_v2(CUdeviceptr address) {
  free((void *)address);
  return OK;
}

int cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, void *stream) {
  const char *from = copy->srcMemoryType == CU_MEMORYTYPE_HOST ? (const char *)copy->srcHost
                                                               : (const char *)copy->srcDevice;
  char *to = copy->dstMemoryType == CU_MEMORYTYPE_HOST ? (char *)copy->dstHost
                                                       : (char *)copy->dstDevice;
  for (size_t y = 0; y < copy->Height; y++)
    memcpy(to + (copy->dstY + y) * copy->dstPitch + copy->dstXInBytes,
           from + (copy->srcY + y) * copy->srcPitch + copy->srcXInBytes, copy->WidthInBytes);
  return OK;
}

int cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy) { return cuMemcpy2DAsync_v2(copy, NULL); }

int cuStreamSynchronize(void *stream) { return OK; }

typedef struct {
  CUVIDDECODECREATEINFO asked;
  uint64_t pictures[MOST_SURFACES]; /* What each surface holds. */
  unsigned mapped;
} Decoder;

int cuvidGetDecoderCaps(CUVIDDECODECAPS *caps) {
  caps->bIsSupported = 1;
  caps->nOutputFormatMask = 1 << caps->nBitDepthMinus8;
  caps->nMaxWidth = caps->nMaxHeight = 8192;
  caps->nMaxMBCount = 1 << 20;
  caps->nMinWidth = caps->nMinHeight = 16;
  return OK;
}

int cuvidCreateDecoder(CUvideodecoder *created, CUVIDDECODECREATEINFO *asked) {
  if (asked->ulNumDecodeSurfaces > MOST_SURFACES) return INVALID_VALUE;
  Decoder *decoder = calloc(1, sizeof *decoder);
  decoder->asked = *asked;
  *created = (CUvideodecoder)decoder;
  return OK;
}

int cuvidDestroyDecoder(CUvideodecoder which) {
  free(which);
  return OK;
}

int cuvidDecodePicture(CUvideodecoder which, CUVIDPICPARAMS *picture) {
  Decoder *decoder = (Decoder *)which;
  if (picture->CurrPicIdx < 0 || picture->CurrPicIdx >= (int)decoder->asked.ulNumDecodeSurfaces)
    return INVALID_VALUE;
  uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
  for (unsigned k = 0; k < picture->nBitstreamDataLen; k++)
    hash = (hash ^ picture->pBitstreamData[k]) * 0x100000001b3;
  decoder->pictures[picture->CurrPicIdx] = hash;
  return OK;
}

/* The file: width and height as int32, then rows of brightness, then rows of both colours. */
int cuvidMapVideoFrame64(CUvideodecoder which, int surface, unsigned long long *address,
                         unsigned *pitch, CUVIDPROCPARAMS *how) {
  Decoder *decoder = (Decoder *)which;
  const char *folder = getenv("STAND_IN_PICTURES");
  char path[4096];
  int32_t size[2];
  if (folder == NULL || decoder->mapped >= decoder->asked.ulNumOutputSurfaces)
    return INVALID_VALUE;
  snprintf(path, sizeof path, "%s/%016llx", folder,
           (unsigned long long)decoder->pictures[surface]);
  FILE *file = fopen(path, "rb");
  if (file == NULL) return INVALID_VALUE;
  size_t sample = decoder->asked.OutputFormat == cudaVideoSurfaceFormat_P016 ? 2 : 1;
  size_t rows = decoder->asked.ulTargetHeight, complete = fread(size, 8, 1, file);
  *pitch = (decoder->asked.ulTargetWidth * sample + PITCH) / PITCH * PITCH;
  char *memory = calloc(rows + (rows + 1) / 2, *pitch);
  size_t width = (size_t)size[0], height = (size_t)size[1];
  for (size_t y = 0; complete && y < height; y++)
    complete = fread(memory + y * *pitch, width * sample, 1, file);
  for (size_t y = 0; complete && y < (height + 1) / 2; y++)
    complete = fread(memory + (rows + y) * *pitch, (width + 1) / 2 * 2 * sample, 1, file);
  fclose(file);
  if (!complete) {
    free(memory);
    return INVALID_VALUE;
  }
  decoder->mapped++;
  *address = (unsigned long long)memory;
  return OK;
}

int cuvidUnmapVideoFrame64(CUvideodecoder which, unsigned long long address) {
  ((Decoder *)which)->mapped--;
  free((void *)address);
  return OK;
}
