// SPDX-License-Identifier: Apache-2.0
/* How many processors this process may use. */
#ifndef DEMI_BASE_PROCESSORS_H
#define DEMI_BASE_PROCESSORS_H

/* Of its affinity mask, and no more than the control group's quota (cgroup 2's cpu.max) rounded up;
 * at least 1. */
unsigned processors_usable(void);

#endif
