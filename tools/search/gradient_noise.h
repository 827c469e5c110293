// SPDX-License-Identifier: Apache-2.0
/* What groups do to the outputs where they alone have another precision, estimated by gradients: no group
 * is run on its own.
 *
 * Rounding adds e to the elements x of a group, and J e to the outputs y, to first order. Where the
 * elements of e are independent of each other, with means of 0, the expected noise is
 *
 *     E |J e|^2 = sum_i e_i^2 sum_k (dy_k / dx_i)^2 = sum_i e_i^2 E_r[g_i^2],    g = d(r . y) / dx,
 *
 * for random r of independent signs: a diagonal of J'J as Hutchinson has traces (Comm. Stat. 19, 1990;
 * Bekas, Kokiopoulou and Saad, Appl. Num. Math. 57, 2007). J'J is the Hessian of the squared difference to
 * the float model's outputs, which has no first-order term, and the Fisher information of a normal
 * likelihood around them (Martens, JMLR 21, 2020): sums of g^2 e^2 are the empirical Fisher's, and
 * HAWQ-V2's trace of the Hessian times |e|^2 (Dong et al., NeurIPS 2020) element by element.
 *
 * e is what the candidate's rounding makes of this very x, set by set; the signs of an output are divided
 * by the root of its signal, so that the result is the noise by signal which sensitivities measure. Of
 * each set there are DIRECTIONS vectors r, signs times the rows of a Hadamard matrix: with no more outputs
 * than these the sum over k is exact.
 *
 * Not seen is what is not small, or has a mean: many elements that a range cuts off, saturated functions,
 * and roundings that make up for each other. */
#ifndef DEMI_GRADIENT_NOISE_H
#define DEMI_GRADIENT_NOISE_H

#include "sensitivity.h"

/* noise[groups][candidates] of what is wanted: infinite where a candidate can't hold a number, 0 where no
 * output depends on the group. *runs counts runs of the model with its gradients. Bundles, parts and
 * caches are not heeded. False with the error set: of runs, cancelled, or ERR_MODEL which names the first
 * operator that has no gradient. */
bool gradient_noise_find(const Sensitivity *asked, double *noise, size_t *runs, Arena *arena,
                         Err *err);

#endif
