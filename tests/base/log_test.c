#include "tests/check.h"

#include "base/conf/log.h"

#include <unistd.h>

/* Names of nodes, hosts and releases can contain any of these texts. Each message still becomes one
 * line. */
TEST(a_message_is_one_line)
{
    static const struct {
        const char *name, *end;
    } rows[] = {
        { "plain", "AGG-X node=plain\n" },
        { "a\n2026-01-01T00:00:00.000Z ERROR meridian-aggregator AGG-DISK-FULL forged",
          "AGG-X node=a\\x0a2026-01-01T00:00:00.000Z ERROR meridian-aggregator AGG-DISK-FULL "
          "forged\n" },
        { "\033[2J\r\x7f", "AGG-X node=\\x1b[2J\\x0d\\x7f\n" },
        { "\xc2\x9b"
          "31m",
          "AGG-X node=\\x9b31m\n" },
        { "gr\xc3\xbc\xc3\x9f", "AGG-X node=gr\xc3\xbc\xc3\x9f\n" },
    };
    int fds[2];

    REQUIRE(pipe(fds) == 0);
    mrd_log_init("test", fds[1], MRD_LOG_INFO, false);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char line[2048];
        ssize_t n;
        const char *at;

        mrd_log(MRD_LOG_WARN, "AGG-X", "node=%s", rows[i].name);
        n = read(fds[0], line, sizeof(line) - 1);
        REQUIRE(n > 0);
        line[n] = '\0';
        at = strstr(line, "AGG-X");
        CHECK_ROW(rows[i].end, at != NULL && strcmp(at, rows[i].end) == 0);
        CHECK_ROW(rows[i].end, strchr(line, '\n') == line + n - 1);
    }
    close(fds[0]);
    close(fds[1]);
}

TEST_MAIN()
