// SPDX-License-Identifier: Apache-2.0
/* The colors of the pages and drawings that demi writes, for light and dark screens. */
#ifndef DEMI_PAGE_PALETTE_H
#define DEMI_PAGE_PALETTE_H

#include "demi.h"

/* Whether there is a color of that name. */
bool palette_has(const char *name);

/* CSS that sets each color as a variable, as --float16. False where write() was. */
bool palette_write_variables(DemiWriteFn write, void *user);

/* CSS for drawings, which programs that know no variables show, too: classes fill-float16 and
 * stroke-float16. False where write() was. */
bool palette_write_classes(DemiWriteFn write, void *user);

#endif
