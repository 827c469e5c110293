// SPDX-License-Identifier: Apache-2.0
/* What jansson sees as stdin in libdemi.a and libdemi.so (tools/cmake/tools.cmake renames the
 * reference): the object file that parses JSON compares streams with it, by an address that a
 * shared object can't hold. No function of jansson's that takes a stream is called. */
extern const void *const demi_no_stdin;
const void *const demi_no_stdin = 0;
