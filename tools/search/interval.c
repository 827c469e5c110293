// SPDX-License-Identifier: Apache-2.0
/* See interval.h. Quantiles are found by halving, since each is found a few times in a search. */
#include "interval.h"

#include <math.h>
#include <stdbool.h>

enum { HALVINGS = 80, MOST_FREEDOM = 1000 };

double interval_normal(double confidence) {
    double low = 0, high = 40;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2;
        *(erf(middle / sqrt(2)) < confidence ? &low : &high) = middle;
    }
    return high;
}

/* P(|T| <= t) with t = sqrt(freedom) tan(angle): Abramowitz and Stegun, 26.7.3 (odd) and 26.7.4 (even). */
static double student_within(double angle, uint64_t freedom) {
    const double cosine = cos(angle);
    const bool odd = freedom % 2;
    double term = odd ? cosine : 1, sum = 0;
    for (uint64_t power = odd; power + 2 <= freedom; power += 2) {
        sum += term;
        term *= (double)(power + 1) / (double)(power + 2) * cosine * cosine;
    }
    return odd ? 2 / acos(-1) * (angle + sin(angle) * sum) : sin(angle) * sum;
}

double interval_student(double confidence, uint64_t freedom) {
    double low = 0, high = acos(-1) / 2;
    if (freedom > MOST_FREEDOM) freedom = MOST_FREEDOM;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2;
        *(student_within(middle, freedom) < confidence ? &low : &high) = middle;
    }
    return sqrt((double)freedom) * tan(high);
}

/* E. B. Wilson, Journal of the American Statistical Association 22 (1927), 209-212; recommended for few trials
 * by Brown, Cai and DasGupta, Statistical Science 16 (2001), 101-133. */
Interval interval_of_share(double right, double count, double confidence) {
    const double z = interval_normal(confidence), share = right / count;
    const double scale = 1 + z * z / count, middle = (share + z * z / (2 * count)) / scale;
    const double half = z / scale * sqrt(share * (1 - share) / count + z * z / (4 * count * count));
    if (!(count > 0)) return (Interval){NAN, NAN};
    return (Interval){fmax(middle - half, 0), fmin(middle + half, 1)};
}

/* Wald's interval with half a case more in each of the four cells: Agresti and Min, Statistics in Medicine 24
 * (2005), 729-740. */
Interval interval_of_change(double gained, double lost, double count, double confidence) {
    const double all = count + 2, change = (gained - lost) / all;
    const double half = interval_normal(confidence) *
                        sqrt(gained + lost + 1 - (gained - lost) * (gained - lost) / all) / all;
    if (!(count > 0)) return (Interval){NAN, NAN};
    return (Interval){fmax(change - half, -1), fmin(change + half, 1)};
}
