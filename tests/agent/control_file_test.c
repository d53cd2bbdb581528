/* The agent writes files into a directory in which every user may create files. If another user has
 * created an object with the name of such a file, the agent removes it. */
#include "tests/agent/ring_make.h"

#include <errno.h>
#include <unistd.h>

#include "agent/guard/safe_create.h"
#include "agent/rings/control_file.h"
#include "agent/rings/drain.h"
#include "capture/nrt/nrt_control.h"
#include "tests/wait.h"

static mrd_drain_process *found;

static mrd_err
take(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    (void) self;
    (void) clock;
    (void) ev;
    found = process;
    return MRD_OK;
}

static mrd_drain *
open_drain(bool exclusive)
{
    mrd_drain_options o = { .instance_id = "i-test",
                            .ring_dir = test_tmp(),
                            .only_uid = -1,
                            .exclusive = exclusive,
                            .event = take };
    mrd_drain *p = NULL;

    CHECK_ERR("open", mrd_drain_open(&o, &p, NULL), MRD_OK);
    return p;
}

static void
make_folder(const char *path, bool full)
{
    char inner[1200];

    CHECK(mkdir(path, 0700) == 0);
    snprintf(inner, sizeof(inner), "%s/inner", path);
    CHECK(!full || mkdir(inner, 0700) == 0);
}

static bool
has_text(const char *path, const char *want)
{
    char text[64] = "";
    int fd = open(path, O_RDONLY | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    return n == (ssize_t) strlen(want) && strcmp(text, want) == 0;
}

TEST(a_folder_in_the_place_of_a_control_file_goes)
{
    mrd_ring_name name = { .pid = getpid(), .tid = 1, .start_ticks = make_start_ticks(getpid()) };
    maker *m = make_ring(test_tmp(), name.pid, name.start_ticks, 1, 1 << 16);
    char file[MRD_RING_NAME_MAX], path[1024], fixed[1100];
    mrd_drain *p = open_drain(false);
    mrd_why why = { 0 };

    make_boot(name.boot_id);
    mrd_ring_control_print(&name, file);
    snprintf(path, sizeof(path), "%s/%s", test_tmp(), file);
    snprintf(fixed, sizeof(fixed), "%s.new", path);
    make_span(m, make_text(m, "s"), mrd_local_now().ns, 1);
    TEST_UNTIL((mrd_drain_step(p), found != NULL));
    REQUIRE(found != NULL);
    for (int full = 0; full < 2; full++) {
        make_folder(path, full == 1);
        if (full == 0)
            make_folder(fixed, true);
        CHECK_ERR("put", mrd_control_file_put(p, found, full ? "two" : "one", &why), MRD_OK);
        CHECK(has_text(path, full ? "two" : "one"));
        mrd_control_file_drop(p, found);
        CHECK(access(path, F_OK) != 0 && errno == ENOENT);
    }
    mrd_drain_close(p);
}

TEST(a_folder_in_the_place_of_the_lock_does_not_make_two_read)
{
    char path[1024];
    mrd_drain *first, *second;

    snprintf(path, sizeof(path), "%s/meridian.agent.%u.lock", test_tmp(), (unsigned) geteuid());
    make_folder(path, true);
    first = open_drain(true);
    second = open_drain(true);
    (void) mrd_drain_step(first);
    (void) mrd_drain_step(second);
    CHECK(!mrd_drain_stands_back(first));
    CHECK(mrd_drain_stands_back(second));
    mrd_drain_close(first);
    mrd_drain_close(second);
}

TEST(what_cannot_go_is_an_error)
{
    int dir = open(test_tmp(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    CHECK(mrd_safe_create_clear(dir, "nothing"));
    CHECK(!mrd_safe_create_replace(dir, "nothing", "name"));
    CHECK_INT(errno, ENOENT);
    close(dir);
}

TEST_MAIN()
