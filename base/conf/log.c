#include "base/conf/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/conf/json.h"
#include "base/obj.h"
#include "base/plain.h"

/* Maximum number of messages with the same id per second. Further messages are counted and not
 * written. */
#define LOG_BURST 5

typedef struct {
    const char *id;
    mrd_local_ns window; /* when the current second of this id began */
    unsigned passed, held;
} log_seen;

static struct {
    pthread_mutex_t lock; /* guards the members below; no other lock is taken while it is held */
    const char *program;
    int fd;
    mrd_log_level level;
    bool json;
    log_seen seen[64]; /* one entry per id; a new id replaces the oldest entry */
    size_t next;
} log_state = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .program = "meridian", .fd = 2, .level = MRD_LOG_WARN
};

static const char *const log_names[] = { "ERROR", "WARN", "INFO", "DEBUG" };

void
mrd_log_init(const char *program, int fd, mrd_log_level level, bool json)
{
    pthread_mutex_lock(&log_state.lock);
    log_state.program = program;
    log_state.fd = fd;
    log_state.level = level;
    log_state.json = json;
    pthread_mutex_unlock(&log_state.lock);
}

static bool
log_on(mrd_log_level level)
{
    return level <= log_state.level;
}

/* Returns true if the message may be written now. Stores in *ret_held how many messages of this id
 * were suppressed since the last one. */
static bool
log_admit(const char *id, unsigned *ret_held)
{
    mrd_local_ns now = mrd_local_now();
    log_seen *seen = NULL;

    for (size_t i = 0; i < MRD_COUNT(log_state.seen) && seen == NULL; i++) {
        if (log_state.seen[i].id != NULL && strcmp(log_state.seen[i].id, id) == 0)
            seen = &log_state.seen[i];
    }
    if (seen == NULL) {
        seen = &log_state.seen[log_state.next++ % MRD_COUNT(log_state.seen)];
        *seen = (log_seen){ .id = id, .window = now };
    }
    if (mrd_local_diff(now, seen->window) >= MRD_SEC) {
        seen->window = now;
        seen->passed = 0;
    }
    if (seen->passed >= LOG_BURST) {
        seen->held++;
        return false;
    }
    seen->passed++;
    *ret_held = seen->held;
    seen->held = 0;
    return true;
}

void
mrd_log(mrd_log_level level, const char *id, const char *format, ...)
{
    char text[1024], time[MRD_TIME_TEXT];
    mrd_buf line = { 0 };
    unsigned held = 0;
    va_list args;

    if (!log_on(level))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    mrd_wall_text(mrd_wall_now(), time);
    pthread_mutex_lock(&log_state.lock);
    if (log_admit(id, &held)) {
        size_t done = 0;

        if (log_state.json) {
            mrd_buf_fmt(&line,
                        "{\"time\":\"%s\",\"level\":\"%s\",\"program\":\"%s\",\"id\":\"%s\",", time,
                        log_names[level], log_state.program, id);
            mrd_buf_text(&line, "\"text\":");
            mrd_json_quote(&line, mrd_str_of(text));
            if (held > 0)
                mrd_buf_fmt(&line, ",\"not_shown\":%u", held);
            mrd_buf_text(&line, "}\n");
        } else {
            mrd_buf_fmt(&line, "%.23sZ %s %s %s ", time, log_names[level], log_state.program, id);
            /* without newlines, so that each line is one message */
            mrd_plain_text(&line, mrd_str_of(text));
            if (held > 0)
                mrd_buf_fmt(&line, " (not_shown=%u)", held);
            mrd_buf_byte(&line, '\n');
        }
        while (line.err == MRD_OK && done < line.len) {
            ssize_t n = write(log_state.fd, line.p + done, line.len - done);

            if (n <= 0)
                break; /* an error of the log itself cannot be reported anywhere */
            done += (size_t) n;
        }
    }
    pthread_mutex_unlock(&log_state.lock);
    mrd_buf_fini(&line);
}
