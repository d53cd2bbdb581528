#include "cli/term/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/plain.h"
#include "cli/cli.h"

void
mrd_progress_start(mrd_progress *progress, const char *verb)
{
    *progress = (mrd_progress){ .on = isatty(2), .start = mrd_local_now(), .verb = verb };
}

/* Writes an amount with its unit: bytes as "1.2 GB", others as "3.4 M events". */
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

/* Returns the number of columns that a line may use. A longer line would wrap, and each update
 * would leave a copy of it on the screen. */
static int
columns(void)
{
    struct winsize size;

    return ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

/* Appends the name of the file. Its creator may have chosen any bytes, so only printable characters
 * are kept. */
static void
add_name(mrd_buf *line, const char *what)
{
    const char *base = strrchr(what, '/');
    mrd_str name = mrd_str_of(base == NULL ? what : base + 1);

    mrd_buf_text(line, "  ");
    mrd_plain_text(line, name);
}

/* Returns the length in bytes of the longest beginning of the line that has at most `most` bytes
 * and ends between two characters. */
static int
cut(const mrd_buf *line, int most)
{
    size_t n = line->len < (size_t) most ? line->len : (size_t) most;

    while (n > 0 && n < line->len && (line->p[n] & 0xc0) == 0x80)
        n--;
    return (int) n;
}

void
mrd_progress_show(mrd_progress *progress, uint64_t done, uint64_t total, const char *unit,
                  const char *what)
{
    mrd_local_ns now;
    uint64_t gone;
    double seconds;
    char amount[64], rate[64], left[64] = "";
    mrd_buf line = { 0 };
    int count;

    if (!progress->on || mrd_local_diff((now = mrd_local_now()), progress->last) < 100 * MRD_MS)
        return;
    progress->last = now;
    /* Measures the rate from this amount on. If the amount has decreased, the caller counts
     * something else now. */
    if (!progress->shown || done < progress->first) {
        progress->first = done;
        progress->start = progress->shown ? now : progress->start;
        progress->shown = true;
    }
    gone = done - progress->first;
    seconds = (double) mrd_local_diff(now, progress->start) / 1e9;
    progress_amount(done, unit, amount, sizeof(amount));
    progress_amount(seconds > 0 ? (uint64_t) ((double) gone / seconds) : 0, unit, rate,
                    sizeof(rate));
    if (total > done && gone > 0 && seconds > 0.3)
        snprintf(left, sizeof(left), ", %2.0f %%, %.0f s left",
                 100.0 * (double) done / (double) total,
                 seconds * (double) (total - done) / (double) gone);
    mrd_buf_fmt(&line, "%s %s, %s/s%s", progress->verb, amount, rate, left);
    if (what != NULL)
        add_name(&line, what);
    count = line.err == MRD_OK ? cut(&line, columns()) : 0;
    fprintf(stderr, "\r%.*s%*s", count, (const char *) line.p,
            progress->width > count ? progress->width - count : 0, "");
    progress->width = count;
    mrd_buf_fini(&line);
    fflush(stderr);
}

void
mrd_progress_end(mrd_progress *progress)
{
    if (progress->on && progress->width > 0)
        fprintf(stderr, "\r%*s\r", progress->width, "");
    progress->width = 0;
}
