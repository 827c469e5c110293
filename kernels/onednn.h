// SPDX-License-Identifier: Apache-2.0
/* oneDNN, as the rest of demi sees it: it is there, or it is not and why.
 *
 * libdnnl.so.3 is opened when the first kernel row that uses it is asked to get ready, or one of
 * these functions is called; never by anything that does not run a plan. The dynamic loader looks
 * for it as for any library (LD_LIBRARY_PATH, the RUNPATH of the program or of libdemi.so, the
 * system's folders); the build gives what it builds a RUNPATH to the library whose headers it
 * found, which an installation does not keep. It is usable from version 3.2 on, before 4, where it
 * was built for the CPU with OpenMP or without threads.
 */
#ifndef DEMI_ONEDNN_H
#define DEMI_ONEDNN_H

/* KernelPrepare.choices of its rows: 1 is to be used where no rule prefers it. */
enum { ONEDNN_CHOICES = 1 };

/* "3.2.0": the version at hand; NULL where there is none, or none that is usable. Lives on. */
const char *onednn_version(void);

/* Why onednn_version is NULL, a phrase; "" where it is not. Lives on. */
const char *onednn_problem(void);

/* "3.2.0": the version whose headers demi was built with; NULL: it was built without. Loads
 * nothing. */
const char *onednn_built_with(void);

#endif
