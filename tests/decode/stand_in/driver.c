/* A stand-in for NVIDIA's driver: what FFmpeg's NVDEC code asks of libcuda and libnvcuvid.

   It decodes nothing. A picture that is to be decoded is looked up by the bytes that FFmpeg hands
   over for it, in the folder STAND_IN_PICTURES, where the CPU's picture lies: see learn() in
   stand_in/__init__.py. So FFmpeg's part is real (parsing, references, order, surfaces, bringing
   frames down), and what a chip makes of the bytes is not shown. "Memory of the GPU" is malloc's.

   STAND_IN_MOST: decoders that there are at a time. STAND_IN_FRAMES: pictures, after which it fails.
   */

#include <ffnvcodec/dynlink_cuda.h>
#include <ffnvcodec/dynlink_cuviddec.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unused.h"

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101 };
enum { MOST_SURFACES = 32, MOST_NAMES = 64, DEEPEST = 64, PITCH = 512 };

static int is_recording, num_names, num_decoders, num_pictures;
static uint64_t names[MOST_NAMES];
static __thread void *contexts[DEEPEST];
static __thread int depth;

int cuInit(unsigned flags) { return OK; }

int cuDeviceGet(int *device, int number) {
  *device = number;
  return number == 0 ? OK : INVALID_DEVICE;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = PITCH;
  return OK;
}

int cuCtxGetCurrent(void **context) {
  *context = depth ? contexts[depth - 1] : NULL;
  return OK;
}

int cuCtxPushCurrent_v2(void *context) {
  if (context == NULL || depth == DEEPEST) return INVALID_VALUE;
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

static int limit(const char *name) {
  const char *value = getenv(name);
  return value == NULL ? 1 << 30 : atoi(value);
}

/* While it records, every picture is black, and the names of those that were asked for are kept. */
void stand_in_record(int is_on) { is_recording = is_on; }

int stand_in_asked(uint64_t *found) {
  int count = num_names;
  memcpy(found, names, count * sizeof *names);
  num_names = 0;
  return count;
}

int cuvidCreateDecoder(CUvideodecoder *created, CUVIDDECODECREATEINFO *asked) {
  if (asked->ulNumDecodeSurfaces > MOST_SURFACES) return INVALID_VALUE;
  if (num_decoders >= limit("STAND_IN_MOST")) return OUT_OF_MEMORY;
  num_decoders++;
  Decoder *decoder = calloc(1, sizeof *decoder);
  decoder->asked = *asked;
  *created = (CUvideodecoder)decoder;
  return OK;
}

int cuvidDestroyDecoder(CUvideodecoder which) {
  num_decoders--;
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
  if (is_recording && num_names < MOST_NAMES) names[num_names++] = hash;
  return OK;
}

/* Reads a file: width and height as int32, then rows of brightness, then rows of both colours. */
static int read_picture(const char *path, char *memory, size_t pitch, size_t rows, size_t sample) {
  int32_t size[2];
  FILE *file = fopen(path, "rb");
  if (file == NULL) return 0;
  int is_whole = fread(size, sizeof size, 1, file) == 1;
  size_t width = is_whole ? size[0] : 0, height = is_whole ? size[1] : 0;
  /* A picture that is larger than the decoder was made for is no picture of it. */
  is_whole = is_whole && width * sample <= pitch && height <= rows;
  for (size_t y = 0; is_whole && y < height; y++)
    is_whole = fread(memory + y * pitch, width * sample, 1, file) == 1;
  for (size_t y = 0; is_whole && y < (height + 1) / 2; y++)
    is_whole = fread(memory + (rows + y) * pitch, (width + 1) / 2 * 2 * sample, 1, file) == 1;
  fclose(file);
  return is_whole;
}

int cuvidMapVideoFrame64(CUvideodecoder which, int surface, unsigned long long *address,
                         unsigned *pitch, CUVIDPROCPARAMS *how) {
  Decoder *decoder = (Decoder *)which;
  const char *folder = getenv("STAND_IN_PICTURES");
  char path[4096];
  if (folder == NULL || decoder->mapped >= decoder->asked.ulNumOutputSurfaces ||
      num_pictures >= limit("STAND_IN_FRAMES"))
    return INVALID_VALUE;
  snprintf(path, sizeof path, "%s/%016llx", folder,
           (unsigned long long)decoder->pictures[surface]);
  size_t sample = decoder->asked.OutputFormat == cudaVideoSurfaceFormat_P016 ? 2 : 1;
  size_t rows = decoder->asked.ulTargetHeight;
  *pitch = (decoder->asked.ulTargetWidth * sample + PITCH) / PITCH * PITCH;
  char *memory = calloc(rows + (rows + 1) / 2, *pitch);
  if (!is_recording && !read_picture(path, memory, *pitch, rows, sample)) {
    free(memory);
    return INVALID_VALUE;
  }
  num_pictures += !is_recording;
  decoder->mapped++;
  *address = (unsigned long long)memory;
  return OK;
}

int cuvidUnmapVideoFrame64(CUvideodecoder which, unsigned long long address) {
  ((Decoder *)which)->mapped--;
  free((void *)address);
  return OK;
}
