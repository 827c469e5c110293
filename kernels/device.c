// SPDX-License-Identifier: Apache-2.0
/* Devices by name; see device.h. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

const DeviceKind *device_kind(const char *text, unsigned *number, Err *err) {
    const size_t length = strlen(cuda_kind.name);
    *number = 0;
    if (strncmp(text, cuda_kind.name, length) == 0) {
        const char *behind = text + length;
        char *end;
        if (!*behind) return &cuda_kind;
        if (behind[0] == ':' && behind[1] >= '0' && behind[1] <= '9') {
            const unsigned long named = strtoul(behind + 1, &end, 10);
            *number = (unsigned)named;
            if (!*end && named < 1024) return &cuda_kind;
        }
    }
    err_set(err, ERR_USAGE, "unknown device '%s'", text);
    err_expected(err, "cpu, cuda or cuda:NUMBER");
    return NULL;
}
