#include "tests/check.h"

#include <fcntl.h>

#include "base/sys/file.h"

static const char *
file_of(size_t size)
{
    static char path[128];
    FILE *f;

    snprintf(path, sizeof(path), "%s/f", test_tmp());
    f = fopen(path, "w");
    for (size_t i = 0; i < size; i++)
        putc((int) (i % 251), f);
    fclose(f);
    return path;
}

TEST(sizes_around_the_limit)
{
    static const size_t sizes[] = { 0, 1, 255, 256, 4095, 4096, 4097, 10000, 65536 };

    for (size_t i = 0; i < MRD_COUNT(sizes); i++) {
        size_t n = sizes[i];
        const char *path = file_of(n);

        for (size_t max = n == 0 ? 0 : n - 1; max <= n + 1; max++) {
            mrd_buf buf = { 0 };
            mrd_why why = { 0 };

            mrd_buf_text(&buf, "ab");
            CHECK_ERR("read", mrd_file_read(path, max, &buf, &why), max < n ? MRD_LIMIT : MRD_OK);
            CHECK_INT(buf.len, 2 + (max < n ? max : n));
            CHECK(memcmp(buf.p, "ab", 2) == 0);
            for (size_t k = 2; k < buf.len; k++)
                REQUIRE(buf.p[k] == (k - 2) % 251);
            CHECK(max >= n || strstr(why.text, path) != NULL);
            mrd_buf_fini(&buf);
        }
    }
}

/* Reading a secret leaves no copy in memory, because the buffer does not move. */
TEST(a_buffer_with_room_does_not_move)
{
    int fd = open(file_of(5000), O_RDONLY);
    mrd_buf buf = { 0 };
    uint8_t *p;

    REQUIRE(fd >= 0 && mrd_buf_room(&buf, 5001));
    p = buf.p;
    CHECK_ERR("read", mrd_file_read_fd(fd, 5000, &buf), MRD_OK);
    CHECK(buf.p == p && buf.len == 5000);
    mrd_buf_fini(&buf);
    close(fd);
}

TEST(what_cannot_be_read)
{
    mrd_buf buf = { 0 };
    mrd_why why = { 0 };
    char line[8] = "old";

    CHECK_ERR("none", mrd_file_read("/nonexistent/x", 10, &buf, &why), MRD_NOTFOUND);
    CHECK(strstr(why.text, "/nonexistent/x") != NULL);
    CHECK_ERR("folder", mrd_file_read(test_tmp(), 10, &buf, &why), MRD_IO);
    CHECK_ERR("endless", mrd_file_read("/dev/zero", 100000, &buf, &why), MRD_LIMIT);
    CHECK_INT(buf.len, 100000);
    CHECK(buf.cap < 1000000);
    CHECK_ERR("not open", mrd_file_read_fd(-1, 10, &buf), MRD_IO);
    CHECK(!mrd_file_line("/nonexistent/x", line, sizeof(line)));
    CHECK_TEXT(line, "");
    mrd_buf_fini(&buf);
}

TEST(a_pipe_gives_its_bytes_in_chunks)
{
    int ends[2];
    mrd_buf buf = { 0 };

    REQUIRE(pipe(ends) == 0);
    if (fork() == 0) {
        for (int i = 0; i < 100; i++)
            if (write(ends[1], "0123456789", 10) != 10)
                _exit(1);
        _exit(0);
    }
    close(ends[1]);
    CHECK_ERR("read", mrd_file_read_fd(ends[0], 1000, &buf), MRD_OK);
    CHECK_INT(buf.len, 1000);
    mrd_buf_fini(&buf);
    close(ends[0]);
}

TEST(lines)
{
    static const struct {
        const char *text, *want;
        bool ok;
    } rows[] = {
        { "", "", false },
        { "\n", "", true },
        { "one", "one", true },
        { "one\n", "one", true },
        { "one\ntwo", "one", true },
        { "1234567", "1234567", true },
        { "12345678", "1234567", true },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char path[128], line[8] = "before";
        FILE *f;

        snprintf(path, sizeof(path), "%s/line", test_tmp());
        f = fopen(path, "w");
        fputs(rows[i].text, f);
        fclose(f);
        CHECK_ROW(rows[i].text, mrd_file_line(path, line, sizeof(line)) == rows[i].ok);
        CHECK_TEXT(line, rows[i].want);
    }
}

TEST_MAIN()
