// SPDX-License-Identifier: Apache-2.0
/* How insert-qdq stores what it quantizes, for who wants to know it without a model. */
#ifndef DEMI_INSERT_QDQ_H
#define DEMI_INSERT_QDQ_H

#include "qdq_plan.h"

/* What the pass's options, as pipeline_parse gives them, ask for: nodes that stay float are not among it. ERR_USAGE
 * where a block size is none. */
bool insert_qdq_request(const void *options, QdqRequest *request, Err *err);

#endif
