/* Fuzzes the reader of a control file. It is in the ring directory, and its owner may write
 * anything into it. */
#include <stdlib.h>
#include <string.h>

#include "capture/nrt/nrt_control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    mrd_control c;

    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (mrd_control_parse(text, &c) &&
        (c.id == 0 || c.seq == 0 || c.verb == MRD_CONTROL_NO_VERB || c.mode == MRD_CONTROL_NOTHING))
        abort();
    free(text);
    return 0;
}
