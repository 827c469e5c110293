// SPDX-License-Identifier: Apache-2.0
/* byte_channels.h in plain C: channel by channel. */
#include <math.h>

#include "byte_channels.h"

static int32_t byte_at(const BytePixels *p, uint64_t tap, uint64_t pixel, uint64_t c) {
    const void *byte = (const char *)p->rows[tap * p->stride + pixel] + c;
    return p->is_signed ? *(const int8_t *)byte : *(const uint8_t *)byte;
}

static void pixels_portable(const BytePixels *p) {
    const uint64_t words = (p->taps + 1) / 2;
    for (uint64_t i = 0; i < p->count; i++)
        for (uint64_t c = 0; c < p->channels; c++) {
            const int16_t *w = (const int16_t *)p->weights + (c / 4 * 4 * words + c % 4) * 2;
            uint32_t sum = (uint32_t)p->offset[c];
            for (uint64_t t = 0; t < p->taps; t++)
                sum += (uint32_t)(byte_at(p, t, i, c) * w[t / 2 * 8 + t % 2]);
            float v = (float)(int32_t)sum * p->factor[c] + p->shift[c];
            v = p->low > v ? p->low : v;
            v = p->high < v ? p->high : v;
            if (p->scale.to == DTYPE_FLOAT)
                ((float *)p->y)[i * p->y_row + c] = v;
            else
                ((uint8_t *)p->y)[i * p->y_row + c] =
                    (uint8_t)((v == v ? (int32_t)rintf(v) : (int32_t)p->low) + p->scale.zero);
        }
}

const ByteChannelsIsa *byte_channels_portable(void) {
    static const ByteChannelsIsa isa = {4, 1, 1, 2, 4, pixels_portable};
    return &isa;
}
