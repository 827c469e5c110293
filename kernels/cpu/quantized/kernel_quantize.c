// SPDX-License-Identifier: Apache-2.0
/* QuantizeLinear and DequantizeLinear.
 *
 * All operands are taken in their own types, because the scale's type is the division's precision
 * and the output's type the range: blocks are converted to float, or double where an operand is of
 * 32-bit integers or double, computed there, and converted once to the output. Scales and zero
 * points are one for all, one for each place along the axis, or one for each block along it; in all
 * cases they repeat in a pattern of (outer, along the axis, inner), and a run of elements has one
 * scale or one a place.
 */
#include <math.h>
#include <string.h>

#include "half.h"
#include "kernel_clones.h"
#include "kernel_convert.h"
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "kernel_rows.h"
#include "scale_map.h"

enum { RUN = 256 };

/* ---- runs ---------------------------------------------------------------------------------------- */

/* A run: elements next to each other whose scales are one (step 0) or next to each other (1). */
typedef struct Run {
    uint64_t first, count, scale, step;
} Run;

/* The run that begins at element `first`, at most RUN long. */
static Run run_at(const ScaleMap *map, uint64_t first) {
    uint64_t i = first % map->inner, place = first / map->inner;
    uint64_t a = place % map->axis, o = place / map->axis;
    uint64_t row = a / map->block + (map->blocked ? o * map->axis_scales : 0), left;
    Run run = {.first = first};
    if (map->inner == 1 && map->block == 1) { /* along the axis, a scale each */
        run.scale = row;
        run.step = 1;
        left = map->axis - a;
    } else if (map->inner == 1) { /* along the axis within a block */
        run.scale = row;
        left = map->block - a % map->block;
        if (left > map->axis - a) left = map->axis - a;
    } else {
        run.scale = map->blocked ? row * map->inner + i : row;
        run.step = map->blocked;
        left = map->inner - i;
    }
    run.count = left < RUN ? left : RUN;
    return run;
}

/* What is done with each run; `data` is the operator's own. */
typedef struct QuantizeJob {
    const ScaleMap *map;
    const KernelTensor *x, *out;
    const void *data;
    void (*run)(const void *data, Run run, const void *in, void *out);
} QuantizeJob;

static void run_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const QuantizeJob *job = data;
    size_t in_size = kernel_element_size(job->x->dtype);
    size_t out_size = kernel_element_size(job->out->dtype);
    (void)lane;
    for (uint64_t i = first; i < end;) {
        Run run = run_at(job->map, i);
        if (run.count > end - i) run.count = end - i;
        job->run(job->data, run, (const char *)job->x->data + i * in_size,
                 (char *)job->out->data + i * out_size);
        i += run.count;
    }
}

static bool run_all(KernelCall *call, const QuantizeJob *job) {
    const uint64_t count = job->x->count;
    const KernelCut cut =
        kernel_element_cut(count, RUN, kernel_parts(kernel_threads(call), count, 4), count);
    kernel_run_parts(call->workers, cut, run_part, job);
    return true;
}

/* ---- QuantizeLinear -------------------------------------------------------------------------- */

typedef struct Quantizer {
    const KernelTensor *x, *out;
    Dtype precision; /* of the quotient */
    const float *scales, *zeros;
    const double *wide_scales; /* where the quotient is a double */
    float low, high;           /* of the output's type, for integers */
    bool integer;
    bool adds; /* zero points of floats, which -0 is lost by: those of float8 only say the type */
    ConvertRules rules;
} Quantizer;

/* The quotient plus zero point of integers: rounded to even before the zero point is added. Bounded
 * first, so that adding and subtracting 1.5 * 2^23 rounds; NaN becomes the lower limit. */
KERNEL_INLINE float quantized(float x, float scale, float zero, float low, float high) {
    const float magic = 12582912.0f;
    float quotient = x / scale;
    quotient = quotient > -200000.0f ? quotient : -200000.0f;
    quotient = quotient < 200000.0f ? quotient : 200000.0f;
    float rounded = (quotient + magic) - magic + zero;
    rounded = rounded > low ? rounded : low;
    return rounded < high ? rounded : high;
}

/* Where scales begin, and their distance: 0 or 1. */
typedef struct Scales {
    const float *scale, *zero;
    uint64_t step;
    float low, high;
} Scales;

ROW_CLONES static void quantize_run(float *v, const Scales *s, uint64_t n) {
    const float *scale = s->scale, *zero = s->zero, low = s->low, high = s->high;
    if (s->step)
        ROW_EACH(n, v[i] = quantized(v[i], scale[i], zero[i], low, high))
    else {
        const float one = *scale, z = *zero;
        ROW_EACH(n, v[i] = quantized(v[i], one, z, low, high))
    }
}

/* The same of floats to 8 bits. */
ROW_CLONES static void quantize_bytes(uint8_t *out, const float *x, const Scales *s, uint64_t n) {
    const float *scale = s->scale, *zero = s->zero, low = s->low, high = s->high;
    if (s->step)
        ROW_EACH(n, out[i] = (uint8_t)(int32_t)quantized(x[i], scale[i], zero[i], low, high))
    else {
        const float one = *scale, z = *zero;
        ROW_EACH(n, out[i] = (uint8_t)(int32_t)quantized(x[i], one, z, low, high))
    }
}

static void round_quotients(Dtype precision, float *v, uint64_t n) {
    uint16_t narrow[RUN];
    if (!dtype_is_reduced(precision)) return;
    reduced_convert_from_float(precision, narrow, v, n);
    reduced_convert_to_float(precision, v, narrow, n);
}

/* Whole numbers within the range of integer types; others as they are. */
static void store_floats(Dtype dtype, void *out, const float *v, uint64_t n,
                         const ConvertRules *rules) {
    uint8_t *bytes = out;
    uint16_t *words = out;
    if (dtype == DTYPE_UINT8 || dtype == DTYPE_INT8)
        ROW_EACH(n, bytes[i] = (uint8_t)(int32_t)v[i])
    else if (dtype == DTYPE_UINT16 || dtype == DTYPE_INT16)
        ROW_EACH(n, words[i] = (uint16_t)(int32_t)v[i])
    else
        kernel_convert(dtype, out, DTYPE_FLOAT, v, n, rules);
}

/* Division in float, its operands and result rounded to the precision. */
static void quantize_floats(const void *data, Run run, const void *in, void *out) {
    const Quantizer *q = data;
    float v[RUN];
    const float *scale = q->scales + run.scale, *zero = q->zeros + run.scale;
    const Scales scales = {scale, zero, run.step, q->low, q->high};
    bool exact = q->precision == DTYPE_FLOAT;
    bool bytes = q->out->dtype == DTYPE_UINT8 || q->out->dtype == DTYPE_INT8;
    if (exact && bytes && q->x->dtype == DTYPE_FLOAT) {
        quantize_bytes(out, in, &scales, run.count);
        return;
    }
    kernel_convert(DTYPE_FLOAT, v, q->x->dtype, in, run.count, NULL);
    if (!exact) round_quotients(q->precision, v, run.count);
    if (q->integer && exact) {
        quantize_run(v, &scales, run.count);
    } else {
        for (uint64_t i = 0; i < run.count; i++) v[i] /= scale[i * run.step];
        if (!exact) round_quotients(q->precision, v, run.count);
        if (q->integer) {
            for (uint64_t i = 0; i < run.count; i++)
                v[i] = quantized(v[i], 1, zero[i * run.step], q->low, q->high);
        } else {
            for (uint64_t i = 0; q->adds && i < run.count; i++) v[i] += zero[i * run.step];
        }
    }
    store_floats(q->out->dtype, out, v, run.count, &q->rules);
}

static void quantize_doubles(const void *data, Run run, const void *in, void *out) {
    const Quantizer *q = data;
    double v[RUN];
    kernel_convert(DTYPE_DOUBLE, v, q->x->dtype, in, run.count, NULL);
    for (uint64_t i = 0; i < run.count; i++) {
        double quotient = v[i] / q->wide_scales[run.scale + i * run.step];
        double zero = (double)q->zeros[run.scale + i * run.step];
        v[i] = q->integer ? nearbyint(quotient) + zero : q->adds ? quotient + zero : quotient;
        if (q->integer && !(v[i] > (double)q->low)) v[i] = (double)q->low; /* NaN too */
        if (q->integer && v[i] > (double)q->high) v[i] = (double)q->high;
    }
    kernel_convert(q->out->dtype, out, DTYPE_DOUBLE, v, run.count, &q->rules);
}

static bool integer_limits(Quantizer *q) {
    Dtype dtype = q->out->dtype;
    q->integer = dtype_is_integer(dtype);
    if (!q->integer) return dtype_is_float(dtype) && dtype_bits(dtype) <= 8;
    bool is_signed =
        dtype == DTYPE_INT2 || dtype == DTYPE_INT4 || dtype == DTYPE_INT8 || dtype == DTYPE_INT16;
    double half = ldexp(1, (int)dtype_bits(dtype) - 1);
    q->low = is_signed ? (float)-half : 0;
    q->high = (float)(is_signed ? half - 1 : 2 * half - 1);
    return dtype_bits(dtype) <= 16;
}

static const float *as_floats(KernelCall *call, const KernelTensor *tensor, uint64_t count) {
    float *items = ARENA_ARRAY(call->scratch, float, count + 1);
    if (tensor && !kernel_convert(DTYPE_FLOAT, items, tensor->dtype, tensor->data, count, NULL)) {
        kernel_fail(call, "%s instead of numbers", dtype_name(tensor->dtype));
        return NULL;
    }
    return items;
}

/* Scales rounded to the precision, as the operands of its division are. */
static bool read_scales(KernelCall *call, const KernelTensor *scale, Quantizer *q) {
    if (q->precision == DTYPE_DOUBLE) {
        double *items = ARENA_ARRAY(call->scratch, double, scale->count + 1);
        if (!kernel_convert(DTYPE_DOUBLE, items, scale->dtype, scale->data, scale->count, NULL))
            return kernel_fail(call, "a scale cannot be %s", dtype_name(scale->dtype));
        q->wide_scales = items;
        return true;
    }
    q->scales = as_floats(call, scale, scale->count);
    if (!q->scales) return false;
    float *items = ARENA_ARRAY(call->scratch, float, scale->count + RUN);
    for (uint64_t i = 0; i < scale->count; i += RUN) {
        uint64_t n = scale->count - i < RUN ? scale->count - i : RUN;
        memcpy(items + i, q->scales + i, n * sizeof *items);
        round_quotients(q->precision, items + i, n);
    }
    q->scales = items;
    return true;
}

/* The attribute, else the scale's type; scales that are powers of two divide exactly in float, and
 * int32 by int32 needs a double. */
static bool choose_precision(KernelCall *call, const KernelTensor *scale, Dtype *precision) {
    const QuantizeAttrs *attrs = call->attrs;
    int64_t wanted = attrs->precision ? attrs->precision : (int64_t)scale->dtype;
    if (wanted == DTYPE_FLOAT8E8M0) wanted = DTYPE_FLOAT;
    if (wanted == DTYPE_INT32) wanted = DTYPE_DOUBLE;
    *precision = (Dtype)wanted;
    return dtype_is_working(wanted) || wanted == DTYPE_DOUBLE ||
           kernel_fail(call, "precision %lld", (long long)wanted);
}

bool kernel_quantize(KernelCall *call) {
    const QuantizeAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *scale = &call->inputs[1];
    const KernelTensor *zero = kernel_input(call, 2), *out = &call->outputs[0];
    Quantizer q = {.x = x, .out = out, .rules = {!attrs->saturate, CONVERT_UP}};
    ScaleMap map;
    if (x->count != out->count || !integer_limits(&q))
        return kernel_fail(call, "its result cannot be %s", dtype_name(out->dtype));
    if (x->dtype != DTYPE_INT32 && !dtype_is_float(x->dtype))
        return kernel_fail(call, "cannot quantize %s", dtype_name(x->dtype));
    if (!choose_precision(call, scale, &q.precision) ||
        !scale_map_make(call, x, scale, zero, &map) || !read_scales(call, scale, &q))
        return false;
    q.zeros = as_floats(call, zero, scale->count);
    q.adds = zero && dtype_bits(out->dtype) < 8;
    if (!q.zeros) return false;
    QuantizeJob job = {&map, x, out, &q,
                       q.precision == DTYPE_DOUBLE ? quantize_doubles : quantize_floats};
    return run_all(call, &job);
}

/* ---- DequantizeLinear ------------------------------------------------------------------------ */

typedef struct Dequantizer {
    const KernelTensor *x, *out;
    const double *scales, *zeros;
    bool in_float; /* products in float round as those in double would */
    const float *narrow_scales, *narrow_zeros; /* then; both are exact */
    const float *
        codes; /* the same: what each byte is, of small types that nothing converts directly; else NULL */
} Dequantizer;

/* A difference of 8-bit numbers has 9 bits, of 16-bit ones 17: exact in float, and float8 has 4 and no zero points but
 * 0. So is its product with a scale of 11 bits in the first case; else the product is what is rounded, to float and no
 * further. */
static bool float_suffices(const KernelTensor *x, const KernelTensor *scale,
                           const KernelTensor *out) {
    bool narrow = dtype_bits(x->dtype) <= (dtype_is_integer(x->dtype) ? 16 : 8);
    bool exact = dtype_bits(x->dtype) <= 8 && dtype_bits(scale->dtype) <= 16;
    return narrow && dtype_is_float(scale->dtype) && dtype_bits(scale->dtype) <= 32 &&
           (out->dtype == DTYPE_FLOAT || (exact && dtype_bits(out->dtype) <= 32));
}

ROW_CLONES static void dequantize_run(float *to, const float *v, const float *scale,
                                      const float *zero, const Run *run) {
    const uint64_t n = run->count;
    if (run->step) {
        ROW_EACH(n, to[i] = (v[i] - zero[i]) * scale[i])
    } else {
        const float s = *scale, z = *zero;
        ROW_EACH(n, to[i] = (v[i] - z) * s)
    }
}

static void dequantize_floats(const void *data, Run run, const void *in, void *out) {
    const Dequantizer *d = data;
    float v[RUN];
    const uint64_t n = run.count;
    const bool direct = d->out->dtype == DTYPE_FLOAT;
    if (d->codes) {
        const uint8_t *bytes = in;
        ROW_EACH(n, v[i] = d->codes[bytes[i]])
    } else {
        kernel_convert(DTYPE_FLOAT, v, d->x->dtype, in, n, NULL);
    }
    dequantize_run(direct ? out : v, v, d->narrow_scales + run.scale, d->narrow_zeros + run.scale,
                   &run);
    if (!direct) kernel_convert(d->out->dtype, out, DTYPE_FLOAT, v, n, NULL);
}

/* (x - zero) * scale, rounded once where it is exact in double. */
static void dequantize_doubles(const void *data, Run run, const void *in, void *out) {
    const Dequantizer *d = data;
    double v[RUN];
    const uint64_t n = run.count, step = run.step;
    const double *scale = d->scales + run.scale, *zero = d->zeros + run.scale;
    kernel_convert(DTYPE_DOUBLE, v, d->x->dtype, in, n, NULL);
    if (step)
        ROW_EACH(n, v[i] = (v[i] - zero[i]) * scale[i])
    else
        ROW_EACH(n, v[i] = (v[i] - *zero) * *scale)
    kernel_convert(d->out->dtype, out, DTYPE_DOUBLE, v, n, NULL);
}

static const double *as_doubles(KernelCall *call, const KernelTensor *tensor, uint64_t count) {
    double *items = ARENA_ARRAY(call->scratch, double, count + 1);
    if (tensor && !kernel_convert(DTYPE_DOUBLE, items, tensor->dtype, tensor->data, count, NULL)) {
        kernel_fail(call, "%s instead of numbers", dtype_name(tensor->dtype));
        return NULL;
    }
    return items;
}

/* The same rounded, which float_suffices says loses nothing. */
static const float *as_singles(KernelCall *call, const double *from, uint64_t count) {
    float *items = ARENA_ARRAY(call->scratch, float, count + 1);
    for (uint64_t i = 0; i < count; i++) items[i] = (float)from[i];
    return items;
}

static const float *codes_of(KernelCall *call, Dtype dtype) {
    uint8_t bytes[256];
    if (kernel_element_size(dtype) != 1 || dtype == DTYPE_INT8 || dtype == DTYPE_UINT8) return NULL;
    float *codes = ARENA_ARRAY(call->scratch, float, sizeof bytes);
    for (unsigned i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)i;
    kernel_convert(DTYPE_FLOAT, codes, dtype, bytes, sizeof bytes, NULL);
    return codes;
}

bool kernel_dequantize(KernelCall *call) {
    const KernelTensor *x = &call->inputs[0], *scale = &call->inputs[1];
    const KernelTensor *zero = kernel_input(call, 2), *out = &call->outputs[0];
    if (x->count != out->count || !dtype_is_float(out->dtype) ||
        !(dtype_is_integer(x->dtype) || dtype_is_float(x->dtype)))
        return kernel_fail(call, "cannot convert %s to %s", dtype_name(x->dtype),
                           dtype_name(out->dtype));
    ScaleMap map;
    if (!scale_map_make(call, x, scale, zero, &map)) return false;
    Dequantizer d = {.x = x,
                     .out = out,
                     .scales = as_doubles(call, scale, scale->count),
                     .in_float = float_suffices(x, scale, out)};
    if (d.scales) d.zeros = as_doubles(call, zero, scale->count);
    if (!d.zeros) return false;
    if (d.in_float && !(d.narrow_scales = as_singles(call, d.scales, scale->count))) return false;
    if (d.in_float && !(d.narrow_zeros = as_singles(call, d.zeros, scale->count))) return false;
    if (d.in_float) d.codes = codes_of(call, x->dtype);
    QuantizeJob job = {&map, x, out, &d, d.in_float ? dequantize_floats : dequantize_doubles};
    return run_all(call, &job);
}
