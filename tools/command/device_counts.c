// SPDX-License-Identifier: Apache-2.0
/* See device_counts.h. */
#include "device_counts.h"

bool device_counts_since(const DemiContext *context, const DemiDeviceCounts *before, uint64_t runs,
                         DemiDeviceCounts *counts) {
    *counts = (DemiDeviceCounts)DEMI_DEVICE_COUNTS_INIT;
    if (!runs || !demi_context_device_counts(context, counts)) return false;
    counts->launches = (counts->launches - before->launches) / runs;
    counts->bytes = (counts->bytes - before->bytes) / runs;
    counts->uploads = (counts->uploads - before->uploads) / runs;
    counts->downloads = (counts->downloads - before->downloads) / runs;
    counts->upload_bytes = (counts->upload_bytes - before->upload_bytes) / runs;
    counts->download_bytes = (counts->download_bytes - before->download_bytes) / runs;
    counts->replays -= before->replays;
    counts->tf32 = (counts->tf32 - before->tf32) / runs;
    counts->declined = (counts->declined - before->declined) / runs;
    return true;
}

const char *device_counts_text(Arena *arena, const DemiDeviceCounts *counts) {
    const char *rounded = counts->tf32 ? arena_printf(arena, " (%llu of them may be in TF32)",
                                                      (unsigned long long)counts->tf32)
                                       : "";
    const char *declined =
        counts->declined
            ? arena_printf(
                  arena,
                  "; %llu steps on the CPU, because the device does not support their operands",
                  (unsigned long long)counts->declined)
            : "";
    const char *without =
        counts->without
            ? arena_printf(
                  arena,
                  "; %llu steps with slower kernels, because libcublasLt or libcudnn is missing",
                  (unsigned long long)counts->without)
            : "";
    return arena_printf(arena,
                        "device: %llu launches%s, which read and write %.3f MB; %llu copies of "
                        "%.3f MB; %.3f MB of device memory%s%s",
                        (unsigned long long)counts->launches, rounded, (double)counts->bytes / 1e6,
                        (unsigned long long)(counts->uploads + counts->downloads),
                        (double)(counts->upload_bytes + counts->download_bytes) / 1e6,
                        (double)counts->memory_peak / 1e6, declined, without);
}

void device_counts_json(JsonWriter *json, const DemiDeviceCounts *counts) {
    json_open(json, "device", '{');
    json_unsigned(json, "launches", counts->launches);
    json_unsigned(json, "bytes", counts->bytes);
    json_unsigned(json, "uploads", counts->uploads);
    json_unsigned(json, "downloads", counts->downloads);
    json_unsigned(json, "upload_bytes", counts->upload_bytes);
    json_unsigned(json, "download_bytes", counts->download_bytes);
    json_unsigned(json, "replays", counts->replays);
    json_unsigned(json, "tf32", counts->tf32);
    json_unsigned(json, "memory_peak", counts->memory_peak);
    json_unsigned(json, "declined", counts->declined);
    json_unsigned(json, "without", counts->without);
    json_close(json, '}');
}
