/* Fuzzes the reader of certificates in DER. The names that it returns are plain text that can be
 * split again. */
#include "pki/cert.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t rooms[] = { 1, 2, 16, MRD_CERT_NAMES };

    for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
        /* the exact size, so that a read after the end is detected */
        char *names = malloc(rooms[i]);
        bool ok = mrd_cert_names_der((mrd_bytes){ data, size }, '\n', names, rooms[i]);

        if (ok && strlen(names) >= rooms[i])
            abort();
        for (const char *p = names; ok && *p != '\0';) {
            size_t n = strcspn(p, "\n");
            char one[MRD_CERT_NAMES];

            for (size_t k = 0; k < n; k++) {
                if (p[k] < 0x20 || p[k] > 0x7e)
                    abort();
            }
            memcpy(one, p, n);
            one[n] = '\0';
            if (n == 0 || !mrd_cert_named(names, '\n', one))
                abort();
            p += n + (p[n] == '\n');
        }
        free(names);
    }
    return 0;
}
