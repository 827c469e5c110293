// SPDX-License-Identifier: Apache-2.0
/* What a file is that could not be read as a model: another format, an archive, a web page, a
 * pointer, nothing, or the beginning of a model. Told by what is in it, never by its name alone. */
#ifndef DEMI_FOREIGN_FILE_H
#define DEMI_FOREIGN_FILE_H

#include "err.h"
#include "source.h"

/* Where *err is an ERR_MODEL of reading this source, and it can be told what that is instead, says
 * so in its place, with a hint at how a model is made of it. Reads a few KiB. */
void foreign_file_explain(const Source *source, Err *err);

#endif
