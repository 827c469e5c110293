// SPDX-License-Identifier: Apache-2.0
/* Steps in time of RNN, GRU and LSTM: the recurrent product and all that the gates do with it, in a
 * launch (of a GRU that resets before it multiplies, in two). A warp has a hidden unit: it reads the
 * rows of that unit's gates, sums are float. Beyond a sequence's length its state stays and Y is 0;
 * the backward direction begins at its own last element. */
#include "recurrent_args.h"
#include "unary.cuh"

enum { BATCH = RECURRENT_BATCH };

static __device__ __forceinline__ float gate(const RecurrentArgs &a, int direction, int which,
                                             float x) {
    const RecurrentGate &g = a.gates[direction][which];
    if (a.clip > 0) x = x < -a.clip ? -a.clip : x > a.clip ? a.clip : x;
    return activate_gate(g.op, x, g.p, g.q);
}

/* Where a thread is: unit j of sequence b, in a direction. */
struct Place {
    int d, j, b;
    bool active;
    int64_t state;    /* of (directions, batch, hidden) */
    int64_t time;     /* in the sequence */
    int64_t products; /* of its first gate */
};

static __device__ __forceinline__ Place place_of(const RecurrentArgs &a, int d, int j, int b,
                                                 int gates) {
    Place at = {d, j, b, false, ((int64_t)d * a.batch + b) * a.hidden + j, 0, 0};
    int length = a.lengths ? a.lengths[b] : a.length;
    length = length < 0 ? 0 : length > a.length ? a.length : length;
    at.active = a.step < length;
    const bool backward = d || a.backward;
    at.time = at.active && backward ? length - 1 - a.step : a.step;
    const int64_t row = a.batch_first ? (int64_t)b * a.length + at.time : at.time * a.batch + b;
    at.products = (row * a.directions + d) * gates * a.hidden + j;
    return at;
}

/* What is stored of a step: its new state, or where it is over the old one. */
static __device__ __forceinline__ void store_state(const RecurrentArgs &a, const Place &at, float h,
                                                   float c) {
    if (!at.active) h = a.h[at.state], c = a.c ? a.c[at.state] : 0;
    a.h_next[at.state] = h;
    if (a.c) a.c_next[at.state] = c;
    const int64_t row = a.batch_first
                            ? ((int64_t)at.b * a.length + at.time) * a.directions + at.d
                            : (at.time * a.directions + at.d) * a.batch + at.b;
    if (a.y) store_any(a.y, a.y_type, row * a.hidden + at.j, at.active ? h : 0.0f);
    if (a.step + 1 < a.length) return;
    const int64_t last =
        (a.batch_first ? (int64_t)at.b * a.directions + at.d : (int64_t)at.d * a.batch + at.b) *
            a.hidden +
        at.j;
    if (a.h_last) store_any(a.h_last, a.h_last_type, last, h);
    if (a.c_last) store_any(a.c_last, a.c_last_type, last, c);
}

/* The biases of gate g, of the input and of the state. */
static __device__ __forceinline__ float bias_of(const RecurrentArgs &a, const Place &at, int g,
                                                int gates, int of_state) {
    if (!a.bias) return 0;
    const int64_t first = (int64_t)(2 * at.d + of_state) * gates * a.hidden;
    return load_any(a.bias, a.bias_type, first + (int64_t)g * a.hidden + at.j);
}
static __device__ __forceinline__ float input_of(const RecurrentArgs &a, const Place &at, int g,
                                                 int gates) {
    return a.products[at.products + (int64_t)g * a.hidden] + bias_of(a, at, g, gates, 0);
}

/* sums[b][g]: gate first + g of the unit, times the vectors of BATCH sequences; in all lanes. */
template <typename T, int G>
static __device__ __forceinline__ void multiply(const RecurrentArgs &a, const float *vectors, int d,
                                                int j, int first, int gates,
                                                float (&sums)[BATCH][G]) {
    const int64_t n = a.hidden;
    const int begin = blockIdx.y * BATCH, count = a.batch - begin;
    const T *r = (const T *)a.r + (((int64_t)d * gates + first) * n + j) * n;
    const float *h = vectors + ((int64_t)d * a.batch + begin) * n;
#pragma unroll
    for (int b = 0; b < BATCH; b++)
#pragma unroll
        for (int g = 0; g < G; g++) sums[b][g] = 0;
    for (int64_t k = threadIdx.x % WARP; k < n; k += WARP) {
        float w[G];
#pragma unroll
        for (int g = 0; g < G; g++) w[g] = to_float(r[g * n * n + k]);
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            if (b >= count) continue;
            const float x = h[b * n + k];
#pragma unroll
            for (int g = 0; g < G; g++) sums[b][g] += w[g] * x;
        }
    }
#pragma unroll
    for (int b = 0; b < BATCH; b++)
#pragma unroll
        for (int g = 0; g < G; g++) sums[b][g] = warp_sum(sums[b][g]);
}

/* Runs the body for the warp's unit: a lane a sequence, with that one's sums. */
#define EACH_SEQUENCE(a, T, G, vectors, first, gates)                                              \
    const int d = blockIdx.z, lane = threadIdx.x % WARP;                                           \
    const int j = blockIdx.x * RECURRENT_WARPS + threadIdx.x / WARP;                               \
    if (j >= (a).hidden) return; /* whole warps */                                                 \
    float sums[BATCH][G];                                                                          \
    multiply<T, G>(a, vectors, d, j, first, gates, sums);                                          \
    _Pragma("unroll") for (int b = 0; b < BATCH; b++) if (lane == b && blockIdx.y * BATCH + b < (a).batch)

template <typename T> static __device__ void rnn(const RecurrentArgs &a) {
    EACH_SEQUENCE(a, T, 1, a.h, 0, 1) {
        const Place at = place_of(a, d, j, blockIdx.y * BATCH + b, 1);
        const float x = input_of(a, at, 0, 1) + bias_of(a, at, 0, 1, 1) + sums[b][0];
        store_state(a, at, gate(a, d, 0, x), 0);
    }
}

template <typename T> static __device__ void lstm(const RecurrentArgs &a) {
    EACH_SEQUENCE(a, T, 4, a.h, 0, 4) {
        const Place at = place_of(a, d, j, blockIdx.y * BATCH + b, 4);
        float x[4]; /* gates i o f c */
#pragma unroll
        for (int g = 0; g < 4; g++)
            x[g] = input_of(a, at, g, 4) + bias_of(a, at, g, 4, 1) + sums[b][g];
        const float c = a.c[at.state];
        const int64_t p = (int64_t)d * 3 * a.hidden + j;
        if (a.p) {
            x[0] += load_any(a.p, a.p_type, p) * c;
            x[2] += load_any(a.p, a.p_type, p + 2 * (int64_t)a.hidden) * c;
        }
        const float in = gate(a, d, 0, x[0]);
        const float forget = a.couple ? 1 - in : gate(a, d, 0, x[2]);
        const float cell = forget * c + in * gate(a, d, 1, x[3]);
        if (a.p) x[1] += load_any(a.p, a.p_type, p + a.hidden) * cell;
        store_state(a, at, gate(a, d, 0, x[1]) * gate(a, d, 2, cell), cell);
    }
}

static __device__ __forceinline__ float blend(const RecurrentArgs &a, const Place &at, float update,
                                              float candidate) {
    return (1 - update) * candidate + update * a.h[at.state];
}

/* Gates z r h; the state is multiplied before it is reset. */
template <typename T> static __device__ void gru(const RecurrentArgs &a) {
    EACH_SEQUENCE(a, T, 3, a.h, 0, 3) {
        const Place at = place_of(a, d, j, blockIdx.y * BATCH + b, 3);
        float x[2];
#pragma unroll
        for (int g = 0; g < 2; g++)
            x[g] = gate(a, d, 0, input_of(a, at, g, 3) + bias_of(a, at, g, 3, 1) + sums[b][g]);
        const float state = x[1] * (sums[b][2] + bias_of(a, at, 2, 3, 1));
        store_state(a, at, blend(a, at, x[0], gate(a, d, 1, input_of(a, at, 2, 3) + state)), 0);
    }
}

/* It is reset before: first gates z and r, */
template <typename T> static __device__ void gru_gates(const RecurrentArgs &a) {
    EACH_SEQUENCE(a, T, 2, a.h, 0, 3) {
        const Place at = place_of(a, d, j, blockIdx.y * BATCH + b, 3);
        float x[2];
#pragma unroll
        for (int g = 0; g < 2; g++)
            x[g] = gate(a, d, 0, input_of(a, at, g, 3) + bias_of(a, at, g, 3, 1) + sums[b][g]);
        a.update[at.state] = x[0];
        a.reset[at.state] = x[1] * a.h[at.state];
    }
}
/* then what they let through. */
template <typename T> static __device__ void gru_candidate(const RecurrentArgs &a) {
    EACH_SEQUENCE(a, T, 1, a.reset, 2, 3) {
        const Place at = place_of(a, d, j, blockIdx.y * BATCH + b, 3);
        const float x = input_of(a, at, 2, 3) + bias_of(a, at, 2, 3, 1) + sums[b][0];
        store_state(a, at, blend(a, at, a.update[at.state], gate(a, d, 1, x)), 0);
    }
}

/* The states before the first step, which are the last ones of sequences without elements. */
extern "C" __global__ void __launch_bounds__(256) recurrent_begin(RecurrentArgs a) {
    begin();
    const int64_t count = (int64_t)a.directions * a.batch * a.hidden;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const int64_t j = i % a.hidden, b = i / a.hidden % a.batch, d = i / a.hidden / a.batch;
        const int64_t given = a.batch_first ? (b * a.directions + d) * a.hidden + j : i;
        const float h = a.h_first ? load_any(a.h_first, a.h_first_type, given) : 0.0f;
        const float c = a.c_first ? load_any(a.c_first, a.c_first_type, given) : 0.0f;
        a.h_next[i] = h;
        if (a.c_next) a.c_next[i] = c;
        if (a.length) continue;
        if (a.h_last) store_any(a.h_last, a.h_last_type, given, h);
        if (a.c_last) store_any(a.c_last, a.c_last_type, given, c);
    }
}

#define RECURRENT(name, suffix, T)                                                                 \
    extern "C" __global__ void __launch_bounds__(WARP *RECURRENT_WARPS)                            \
        name##_step_##suffix(RecurrentArgs a) {                                                    \
        begin();                                                                                   \
        name<T>(a);                                                                                \
    }
#define RECURRENTS(suffix, T)                                                                      \
    RECURRENT(rnn, suffix, T)                                                                      \
    RECURRENT(lstm, suffix, T)                                                                     \
    RECURRENT(gru, suffix, T)                                                                      \
    RECURRENT(gru_gates, suffix, T)                                                                \
    RECURRENT(gru_candidate, suffix, T)
FOR_FLOATS(RECURRENTS)
