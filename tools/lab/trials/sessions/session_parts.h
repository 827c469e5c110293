// SPDX-License-Identifier: Apache-2.0
/* Parts of large files of inputs, along the axis that counts samples. */
#ifndef DEMI_SESSION_PARTS_H
#define DEMI_SESSION_PARTS_H

#include "session.h"

/* The set, or sets of some rows each where it is a large one that can be cut. */
void session_add_parts(const Session *session, Arena *arena, const SessionSet *set,
                       SessionSetList *list);

/* Gives the inputs the rows of a part. */
bool session_read_part(Session *session, Arena *arena, const SessionSet *set, Err *err);

#endif
