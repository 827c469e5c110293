// SPDX-License-Identifier: Apache-2.0
/* The version of ONNX's own operators that a model, or one of its functions, imports, where casts
 * need one. A function may import another than the model does as long as each operator that it calls
 * is the same in both: ONNX's checker goes by the model's. */
#ifndef DEMI_DEFAULT_IMPORT_H
#define DEMI_DEFAULT_IMPORT_H

#include "pass.h"

/* Has the graph's model or function import a version that Cast is of there and in the model, before
 * a Cast is put into it. What was imported is left in metadata (demi.was). */
void default_import_for_cast(PassCtx *ctx, Graph *graph);

/* The reverse for the model and its functions, once casts are gone. */
void default_imports_restore(Model *model);

#endif
