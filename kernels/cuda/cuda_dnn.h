// SPDX-License-Identifier: Apache-2.0
/* cuDNN, libcudnn.so.9, loaded when a convolution first asks for it: its graph interface, whose types
 * and numbers are those of its binary interface; and convolutions described by it. */
#ifndef DEMI_CUDA_DNN_H
#define DEMI_CUDA_DNN_H

#include "cuda_device.h"

typedef struct CudaDnn {
#define DNN(name, symbol, arguments) int(*name) arguments;
#include "cuda_dnn.def"
#undef DNN
} CudaDnn;

/* The library, loaded if it is not yet; NULL where there is none. False with ERR_ENV where there is one
 * that is of another version or not whole: whoever installed it wants it to be used. */
bool cuda_dnn(const CudaDnn **dnn, Err *err);
/* The device's handle. NULL with the error set. The device's context is the thread's. */
void *cuda_dnn_handle(CudaDevice *device, const CudaDnn *dnn, Err *err);

enum { DNN_AXES = 5, DNN_SPATIAL = DNN_AXES - 2 };

/* A convolution: axes are N, C, spatial …, wherever each lies in memory. */
typedef struct DnnConv {
    Dtype dtype; /* of all tensors; sums are float */
    uint32_t axes;
    int64_t x[DNN_AXES], w[DNN_AXES], y[DNN_AXES];
    int64_t x_strides[DNN_AXES], w_strides[DNN_AXES], y_strides[DNN_AXES];
    int64_t strides[DNN_SPATIAL], dilations[DNN_SPATIAL], begins[DNN_SPATIAL], ends[DNN_SPATIAL];
    bool residual, bias, relu; /* in this order behind it */
    bool tf32;                 /* factors that are float may be rounded */
    int64_t workspace;         /* bytes of it, at most */
} DnnConv;

typedef struct DnnPlan DnnPlan;

/* NULL where cuDNN has no plan for it, or with the error set where cuDNN is not whole. With `compiled`,
 * also those that it compiles now, which takes it a second or so. */
DnnPlan *dnn_plan_new(const CudaDnn *dnn, void *handle, const DnnConv *conv, bool compiled,
                      Err *err);
int64_t dnn_plan_workspace(const DnnPlan *plan);
void dnn_plan_free(const CudaDnn *dnn, DnnPlan *plan); /* NULL is fine */

typedef struct DnnData {
    const void *x, *w, *bias, *residual;
    void *y, *workspace;
} DnnData;
/* False with the error set. `stream` is the device's. */
bool dnn_plan_run(const CudaDnn *dnn, void *handle, CuStream stream, const DnnPlan *plan,
                  const DnnData *data, Err *err);

#endif
