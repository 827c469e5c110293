// SPDX-License-Identifier: Apache-2.0
/* Parts of large files of inputs, along the axis that counts samples. */
#ifndef DEMI_SESSION_PARTS_H
#define DEMI_SESSION_PARTS_H

#include "session.h"

/* Gives the inputs the rows of a part. */
bool session_read_part(Session *session, Arena *arena, const SessionSet *set, Err *err);

#endif
