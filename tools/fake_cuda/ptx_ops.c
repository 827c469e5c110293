// SPDX-License-Identifier: Apache-2.0
/* Instructions that compute lane by lane, and shuffles; see ptx_ops.def.
 *
 * Approximate ones give the exact result moved by one unit, up or down by the operand's bits: the least
 * of the errors that the ISA allows them. */
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_code.h"

typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef float f32;
typedef double f64;

/* ---- what C has no operator for -------------------------------------------------------------- */

/* `length` bits of a at bit `from` of b. */
static u64 insert(u64 a, u64 b, u32 from, u32 length, u32 bits) {
    from &= 255;
    length &= 255;
    if (from >= bits || !length) return b;
    const u64 ones = length >= 64 ? UINT64_MAX : (UINT64_C(1) << length) - 1;
    const u64 mask = ones << from;
    return (b & ~mask) | (a << from & mask);
}

/* In another direction than to nearest. */
static __attribute__((noinline)) f32 fma_to(int direction, volatile f32 a, volatile f32 b,
                                            volatile f32 c) {
    fesetround(direction);
    volatile f32 result = fmaf(a, b, c);
    fesetround(FE_TONEAREST);
    return result;
}

/* The other where one is NaN; -0 before +0. */
static f32 least(f32 a, f32 b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return signbit(a) ? a : b;
    return a < b ? a : b;
}

static f32 flushed(f32 x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* x, which was made of `from`, one unit up or down. Powers of two stay: they are exact on devices. */
static f32 off(f32 x, f32 from) {
    u32 bits, source;
    memcpy(&bits, &x, sizeof bits);
    memcpy(&source, &from, sizeof source);
    if (!(bits & 0x7fffff) || (bits & 0x7f800000) == 0x7f800000 || !(bits & 0x7f800000)) return x;
    bits += source * 2654435761u >> 31 ? 1 : UINT32_MAX;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static f32 divided(f32 a, f32 b) {
    if (fabsf(b) > 0x1p126f && fabsf(b) < INFINITY) return isinf(a) || a != a ? NAN : 0 * a;
    return off(a / b, a);
}

/* Devices give no more of it. */
static f64 upper_half(f64 x) {
    u64 bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= UINT64_C(0xffffffff00000000);
    memcpy(&x, &bits, sizeof x);
    return fabs(x) < 0x1p-1022 ? copysign(0, x) : x;
}

/* To an integer: towards 0, at most the type's ends. */
static long double whole(f64 x, long double least_one, long double most, long double of_nan) {
    if (x != x) return of_nan;
    if (x < least_one) return least_one;
    return x > most ? most : truncl(x);
}

/* ---- all of the table ------------------------------------------------------------------------ */

#define RESULT(TO)  TO *to = PTX_REG(TO, w, i->at[0])
#define FROM(T, k)  const T *from##k = PTX_REG(T, w, i->at[k])
#define RUN(id)     static void run_##id(PtxWarp *w, const PtxInstr *i, uint32_t lanes)
#define BIT(k)      (*PTX_REG(u32, w, i->at[k]))
#define KEEP(value) BIT(0) = (BIT(0) & ~lanes) | ((value)&lanes)

#define OP1(id, names, TO, A, value)                                                               \
    RUN(id) {                                                                                      \
        RESULT(TO);                                                                                \
        FROM(A, 1);                                                                                \
        PTX_EACH(const A a = from1[l]; to[l] = (TO)(value);)                                       \
    }
#define OP2(id, names, TO, A, B, value)                                                            \
    RUN(id) {                                                                                      \
        RESULT(TO);                                                                                \
        FROM(A, 1);                                                                                \
        FROM(B, 2);                                                                                \
        PTX_EACH(const A a = from1[l]; const B b = from2[l]; to[l] = (TO)(value);)                 \
    }
#define OP3(id, names, TO, A, B, C, value)                                                         \
    RUN(id) {                                                                                      \
        RESULT(TO);                                                                                \
        FROM(A, 1);                                                                                \
        FROM(B, 2);                                                                                \
        FROM(C, 3);                                                                                \
        PTX_EACH(const A a = from1[l]; const B b = from2[l]; const C c = from3[l];                 \
                 to[l] = (TO)(value);)                                                             \
    }
#define OP4(id, names, TO, A, B, C, D, value)                                                      \
    RUN(id) {                                                                                      \
        RESULT(TO);                                                                                \
        FROM(A, 1);                                                                                \
        FROM(B, 2);                                                                                \
        FROM(C, 3);                                                                                \
        FROM(D, 4);                                                                                \
        PTX_EACH(const A a = from1[l]; const B b = from2[l]; const C c = from3[l];                 \
                 const D d = from4[l]; to[l] = (TO)(value);)                                       \
    }
#define SELECT(id, names, T)                                                                       \
    RUN(id) {                                                                                      \
        RESULT(T);                                                                                 \
        FROM(T, 1);                                                                                \
        FROM(T, 2);                                                                                \
        const u32 which = BIT(3);                                                                  \
        PTX_EACH(to[l] = which >> l & 1 ? from1[l] : from2[l];)                                    \
    }
#define SET(id, names, T, value)                                                                   \
    RUN(id) {                                                                                      \
        FROM(T, 1);                                                                                \
        FROM(T, 2);                                                                                \
        u32 bits = 0;                                                                              \
        PTX_EACH(const T a = from1[l]; const T b = from2[l]; bits |= (u32)(value) << l;)           \
        KEEP(bits);                                                                                \
    }
#define LOGIC(id, names, value)                                                                    \
    RUN(id) {                                                                                      \
        const u32 x = BIT(1), y = BIT(2);                                                          \
        KEEP(value);                                                                               \
    }
#define LOGIC1(id, names, value)                                                                   \
    RUN(id) {                                                                                      \
        const u32 x = BIT(1);                                                                      \
        KEEP(value);                                                                               \
    }
#include "ptx_ops.def"
#undef OP1
#undef OP2
#undef OP3
#undef OP4
#undef SELECT
#undef SET
#undef LOGIC
#undef LOGIC1

/* ---- shuffles -------------------------------------------------------------------------------- */

/* at: result, its predicate, value, lanes that take part, lane operand, clamp. */
typedef enum Shuffle { SHUFFLE_BFLY, SHUFFLE_IDX } Shuffle;

static void shuffle(PtxWarp *w, const PtxInstr *i, uint32_t lanes, Shuffle how) {
    u32 *to = PTX_REG(u32, w, i->at[0]), values[PTX_LANES], valid = 0;
    const u32 *members = PTX_REG(u32, w, i->at[3]), *by = PTX_REG(u32, w, i->at[4]);
    const u32 *clamps = PTX_REG(u32, w, i->at[5]);
    memcpy(values, PTX_REG(u32, w, i->at[2]), sizeof values);
    for (u32 l = 0; l < PTX_LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        const u32 segment = clamps[l] >> 8 & 31, most = (l & segment) | (clamps[l] & 31 & ~segment);
        u32 from = how == SHUFFLE_BFLY ? l ^ (by[l] & 31) : (l & segment) | (by[l] & 31 & ~segment);
        if (from <= most)
            valid |= UINT32_C(1) << l;
        else
            from = l;
        if (!(members[l] >> from & lanes >> from & 1)) {
            ptx_fault(w, i, (int)l, "it reads lane %u, which does not take part", from);
            return;
        }
        to[l] = values[from];
    }
    if (i->at[1]) BIT(1) = (BIT(1) & ~lanes) | valid;
}
RUN(shuffle_bfly) {
    shuffle(w, i, lanes, SHUFFLE_BFLY);
}
RUN(shuffle_idx) {
    shuffle(w, i, lanes, SHUFFLE_IDX);
}
RUN(sync_warp) {
    (void)i, (void)lanes;
    w->sync++;
}

/* ---- by name --------------------------------------------------------------------------------- */

static const PtxOp ops[] = {
#define W(T)                            sizeof(T)
#define OP1(id, names, TO, A, value)    {names, run_##id, 2, {W(TO), W(A)}, PTX_PLAIN},
#define OP2(id, names, TO, A, B, value) {names, run_##id, 3, {W(TO), W(A), W(B)}, PTX_PLAIN},
#define OP3(id, names, TO, A, B, C, value)                                                         \
    {names, run_##id, 4, {W(TO), W(A), W(B), W(C)}, PTX_PLAIN},
#define OP4(id, names, TO, A, B, C, D, value)                                                      \
    {names, run_##id, 5, {W(TO), W(A), W(B), W(C), W(D)}, PTX_PLAIN},
#define SELECT(id, names, T)     {names, run_##id, 4, {W(T), W(T), W(T), 0}, PTX_PLAIN},
#define SET(id, names, T, value) {names, run_##id, 3, {0, W(T), W(T)}, PTX_PLAIN},
#define LOGIC(id, names, value)  {names, run_##id, 3, {0, 0, 0}, PTX_PLAIN},
#define LOGIC1(id, names, value) {names, run_##id, 2, {0, 0}, PTX_PLAIN},
#include "ptx_ops.def"
    {"shfl.sync.bfly.b32", run_shuffle_bfly, 0, {0}, PTX_SYNC},
    {"shfl.sync.idx.b32", run_shuffle_idx, 0, {0}, PTX_SYNC},
    {"bar.warp.sync", run_sync_warp, 0, {0}, PTX_SYNC},
};

/* All names, in order. */
typedef struct Name {
    const char *at;
    uint32_t length;
    const PtxOp *op;
} Name;
enum { NAMES = 2 * sizeof ops / sizeof *ops };
static Name all[NAMES];
static uint32_t name_count;
static pthread_once_t sorted = PTHREAD_ONCE_INIT;

static int compare(const void *a, const void *b) {
    const Name *x = a, *y = b;
    const int order = memcmp(x->at, y->at, x->length < y->length ? x->length : y->length);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

static void sort_names(void) {
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        for (const char *at = ops[k].names; *at;) {
            if (name_count == NAMES) abort();
            const uint32_t length = (uint32_t)strcspn(at, "|");
            all[name_count++] = (Name){at, length, &ops[k]};
            at += length + (at[length] == '|');
        }
    qsort(all, name_count, sizeof *all, compare);
}

const PtxOp *ptx_op(const char *name, uint32_t length) {
    const Name wanted = {name, length, NULL};
    pthread_once(&sorted, sort_names);
    const Name *found = bsearch(&wanted, all, name_count, sizeof *all, compare);
    return found ? found->op : NULL;
}
