#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"

void
mrd_progress_start(mrd_progress *p, const char *verb)
{
    *p = (mrd_progress){ .on = isatty(2), .start = mrd_local_now(), .verb = verb };
}

/* An amount with its unit: bytes as "1.2 GB", others as "3.4 M events". */
static void
progress_amount(uint64_t n, const char *unit, char *text, size_t size)
{
    char amount[MRD_SIZE_TEXT];

    if (strcmp(unit, "B") == 0)
        snprintf(text, size, "%s", mrd_cli_size(n, amount));
    else if (n >= 1000000)
        snprintf(text, size, "%.1f M %s", (double) n / 1e6, unit);
    else
        snprintf(text, size, "%" PRIu64 " %s", n, unit);
}

void
mrd_progress_show(mrd_progress *p, uint64_t done, uint64_t total, const char *unit,
                  const char *what)
{
    mrd_local_ns now;
    double seconds;
    char amount[64], rate[64], left[64] = "", line[256];
    const char *base;

    if (!p->on || mrd_local_diff((now = mrd_local_now()), p->last) < 100 * MRD_MS)
        return;
    p->last = now;
    seconds = (double) mrd_local_diff(now, p->start) / 1e9;
    progress_amount(done, unit, amount, sizeof(amount));
    progress_amount(seconds > 0 ? (uint64_t) ((double) done / seconds) : 0, unit, rate,
                    sizeof(rate));
    if (total > done && done > 0 && seconds > 0.3)
        snprintf(left, sizeof(left), ", %2.0f %%, %.0f s left",
                 100.0 * (double) done / (double) total,
                 seconds * (double) (total - done) / (double) done);
    base = what == NULL ? NULL : strrchr(what, '/');
    snprintf(line, sizeof(line), "%s %s, %s/s%s%s%.60s", p->verb, amount, rate, left,
             what == NULL ? "" : "  ",
             what == NULL   ? ""
             : base == NULL ? what
                            : base + 1);
    fprintf(stderr, "\r%-*s", p->width, line);
    p->width = (int) strlen(line);
    fflush(stderr);
}

void
mrd_progress_end(mrd_progress *p)
{
    if (p->on && p->width > 0)
        fprintf(stderr, "\r%*s\r", p->width, "");
    p->width = 0;
}
