/* Fuzzes the parser of a request's head at the agent's metrics port. */
#include "agent/daemon/metrics.h"
#include "base/obj.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
write_metrics(void *self, bool open, mrd_buf *to)
{
    (void) self;
    mrd_buf_text(to, open ? "open\n" : "text\n");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const tokens[] = { NULL, "token-0123456789" };

    for (size_t i = 0; i < MRD_COUNT(tokens); i++) {
        mrd_metrics_options o = { .token = tokens[i], .write = write_metrics };
        mrd_buf answer = { 0 };

        mrd_metrics_answer(&o, (mrd_str){ (const char *) data, size }, &answer);
        MRD_ASSERT(answer.err == MRD_OK && answer.len > 20 &&
                   memcmp(answer.p, "HTTP/1.1 ", 9) == 0);
        MRD_ASSERT(memmem(answer.p, answer.len, "token-0123456789", 16) == NULL);
        mrd_buf_fini(&answer);
    }
    return 0;
}
