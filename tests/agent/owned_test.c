/* Tests that the agent opens the files of a workload only with the rights of the workload's user.
 * Users and namespaces are real. The opened file must be the one that the test sees at its own
 * path. */
#include "tests/hw/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/guard/safe_open.h"

#define OWNER  1001
#define VICTIM 1002
#define FRIEND 1003 /* a group */

static const mrd_safe_open_user owner = { .uid = OWNER,
                                          .n_groups = 2,
                                          .groups = { OWNER, FRIEND } };
static const mrd_safe_open_user any = { .uid = MRD_OWNED_ANY };

static char *
at(const char *rel)
{
    static char text[8][1024];
    static unsigned next;
    char *path = text[next++ % 8];

    snprintf(path, 1024, "%s/%s", test_tmp(), rel);
    return path;
}

static void
need_root(void)
{
    if (getuid() != 0)
        SKIP("only root can make files of other users");
    CHECK(chmod(test_tmp(), 0755) == 0);
}

static void
folder(const char *rel, int uid, mode_t mode)
{
    CHECK(mkdir(at(rel), 0700) == 0 && chown(at(rel), (uid_t) uid, (gid_t) uid) == 0 &&
          chmod(at(rel), mode) == 0);
}

static void
file(const char *rel, int uid, const char *text)
{
    tree_file(test_tmp(), rel, text);
    CHECK(chown(at(rel), (uid_t) uid, (gid_t) uid) == 0 && chmod(at(rel), 0600) == 0);
}

static int
open_root(void)
{
    int fd = open(test_tmp(), O_PATH | O_DIRECTORY | O_CLOEXEC);

    CHECK(fd >= 0);
    return fd;
}

/* Opens "folder" and "name" in it as the user. Returns the text of the file, or NULL if it was
 * refused. */
static const char *
taken(int root, const mrd_safe_open_user *who, const char *dir, const char *name, mrd_why *why)
{
    static char text[64];
    struct stat st;
    ssize_t n = -1;
    int d = -1, fd = -1;

    *why = (mrd_why){ 0 };
    if (mrd_safe_open_dir(root, dir, who, &d, why) == MRD_OK &&
        mrd_safe_open_file(d, name, who, &fd, &st, why) == MRD_OK)
        n = read(fd, text, sizeof(text) - 1);
    if (d >= 0)
        close(d);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return NULL;
    text[n] = '\0';
    return text;
}

static void
lay_out(void)
{
    need_root();
    folder("mine", OWNER, 0700);
    folder("mine/sub", OWNER, 0700);
    file("mine/a.ntff", OWNER, "mine");
    file("mine/sub/b.ntff", OWNER, "mine");
    file("mine/other.ntff", VICTIM, "secret");
    folder("victim", VICTIM, 0700);
    file("victim/key.ntff", VICTIM, "secret");
    folder("victim/open", VICTIM, 0777);
    file("victim/open/mine.ntff", OWNER, "mine");
    folder("shared", 0, 01777);
    file("shared/mine.ntff", OWNER, "mine");
    file("shared/key.ntff", VICTIM, "secret");
    folder("team", VICTIM, 0750);
    CHECK(chown(at("team"), VICTIM, FRIEND) == 0);
    file("team/mine.ntff", OWNER, "mine");
    CHECK(symlink(at("victim"), at("mine/link")) == 0);
    CHECK(symlink("../victim", at("mine/rel")) == 0);
    CHECK(symlink(at("victim/key.ntff"), at("mine/link.ntff")) == 0);
    CHECK(symlink("a.ntff", at("mine/own-link.ntff")) == 0);
    CHECK(symlink("/proc/self/root", at("mine/magic")) == 0);
    CHECK(symlink("mine", at("alias")) == 0);
    CHECK(link(at("victim/key.ntff"), at("mine/hard.ntff")) ==
          0); /* root may; see fs.protected_* */
    CHECK(mkfifo(at("mine/fifo.ntff"), 0666) == 0 &&
          chown(at("mine/fifo.ntff"), OWNER, OWNER) == 0);
}

static void
check_rows(void)
{
    static const struct {
        const char *name, *dir, *file, *text;
    } rows[] = {
        { "his own", "mine", "a.ntff", "mine" },
        { "his own, deeper", "mine", "sub/b.ntff", "mine" },
        { "slashes and dots", "//./mine/.", "./sub//b.ntff", "mine" },
        { "his own in a shared folder", "shared", "mine.ntff", "mine" },
        { "his own in a folder of his group", "team", "mine.ntff", "mine" },
        { "another's in his folder", "mine", "other.ntff", NULL },
        { "another's in a shared folder", "shared", "key.ntff", NULL },
        { "another's folder", "victim", "key.ntff", NULL },
        { "his own behind another's folder", "victim/open", "mine.ntff", NULL },
        { "a link as a folder", "mine/link", "key.ntff", NULL },
        { "a relative link as a folder", "mine/rel", "key.ntff", NULL },
        { "a link in the middle", "alias/sub", "b.ntff", NULL },
        { "a link to a link of the kernel", "mine/magic", "etc/passwd", NULL },
        { "a link as a file", "mine", "link.ntff", NULL },
        { "a link to his own file", "mine", "own-link.ntff", NULL },
        { "a link in the way to a file", "mine", "rel/key.ntff", NULL },
        { "a hard link to another's", "mine", "hard.ntff", NULL },
        { "a fifo", "mine", "fifo.ntff", NULL },
        { "a folder as a file", "mine", "sub", NULL },
        { "above the folder", "mine", "../victim/key.ntff", NULL },
        { "above the root", "../../../../etc", "passwd", NULL },
        { "not there", "mine", "none.ntff", NULL },
    };
    int root = open_root();

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_why why;
        const char *text = taken(root, &owner, rows[i].dir, rows[i].file, &why);

        CHECK_ROW(rows[i].name, (text == NULL) == (rows[i].text == NULL));
        CHECK_ROW(rows[i].name, text == NULL || strcmp(text, rows[i].text) == 0);
        CHECK_ROW(rows[i].name, text != NULL || why.text[0] != '\0');
    }
    close(root);
}

TEST(only_what_belongs_to_the_user_is_opened)
{
    lay_out();
    check_rows();
}

TEST(without_openat2_the_same)
{
    lay_out();
    mrd_safe_open_old_kernel(true);
    check_rows();
}

TEST(in_the_operators_folder_links_to_files_of_others_are_not_taken)
{
    static const struct {
        const char *name, *dir, *file, *text;
    } rows[] = {
        { "anybody's", "shared", "mine.ntff", "mine" },
        /* the file has a second name, see below */
        { "root reads all", "victim", "key.ntff", NULL },
        { "a hard link to another's", "mine", "hard.ntff", NULL },
        { "a link", "mine", "link.ntff", NULL },
    };
    int root;

    lay_out();
    root = open_root();
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_why why;
        const char *text = taken(root, &any, rows[i].dir, rows[i].file, &why);

        /* the first name of the file is in the owner's directory, so it may be opened */
        if (i == 1)
            CHECK_ROW(rows[i].name, text != NULL && strcmp(text, "secret") == 0);
        else
            CHECK_ROW(rows[i].name, (text == NULL) == (rows[i].text == NULL));
    }
    close(root);
}

/* ---- Whose root ---- */

typedef struct {
    int pid, go; /* ends when go is closed */
    char ring[1024];
} process;

/* Starts a process of the user that maps a file of its own. With own_mounts it has its own mount
 * namespace, in which /tmp contains only a bind mount of another user's directory. */
static process
start(const char *ring, int uid, bool own_mounts)
{
    process p = { 0 };
    int ends[2], go[2];
    char byte = 0;

    snprintf(p.ring, sizeof(p.ring), "%s", at(ring));
    if (pipe(ends) != 0 || pipe(go) != 0)
        abort();
    if ((p.pid = fork()) == 0) {
        int fd = open(p.ring, O_RDWR | O_CREAT, 0600);

        close(go[1]);
        if (fd < 0 || fchown(fd, (uid_t) uid, (gid_t) uid) != 0 || ftruncate(fd, 4096) != 0 ||
            mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)
            _exit(1);
        if (own_mounts &&
            (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
             mount("tmpfs", "/mnt", "tmpfs", 0, "size=1m,mode=755") != 0 ||
             mkdir("/mnt/bound", 0755) != 0 ||
             mount(at("victim"), "/mnt/bound", NULL, MS_BIND, NULL) != 0 ||
             mkdir("/mnt/cap", 0755) != 0 || chown("/mnt/cap", OWNER, OWNER) != 0 ||
             symlink("/victim", "/mnt/absolute") != 0))
            _exit(77);
        if (own_mounts) {
            tree_file("/mnt", "cap/inside.ntff", "mine");
            if (chown("/mnt/cap/inside.ntff", OWNER, OWNER) != 0)
                _exit(1);
        }
        if (setgroups(0, NULL) != 0 || setgid((gid_t) uid) != 0 || setuid((uid_t) uid) != 0)
            _exit(1);
        (void) !write(ends[1], "r", 1);
        (void) !read(go[0], &byte, 1);
        _exit(0);
    }
    close(ends[1]);
    close(go[0]);
    p.go = go[1];
    if (read(ends[0], &byte, 1) != 1)
        SKIP("namespaces cannot be made here");
    close(ends[0]);
    return p;
}

static void
end(process *p)
{
    close(p->go);
    kill(p->pid, SIGKILL); /* a later child may hold the other end of its pipe */
    waitpid(p->pid, NULL, 0);
}

static mrd_safe_open_claim
claim_of(const process *p, int pid, int uid)
{
    struct stat st;

    CHECK(stat(p->ring, &st) == 0);
    return (mrd_safe_open_claim){ pid, (uint32_t) uid, st.st_dev, st.st_ino };
}

static mrd_err
root_of(const mrd_safe_open_claim *claim, int *ret_root)
{
    mrd_safe_open_user user;
    mrd_why why = { 0 };
    mrd_err err = mrd_safe_open_root("/proc", claim, ret_root, &user, &why);

    CHECK(err == MRD_OK ? user.uid == claim->uid : why.text[0] != '\0');
    return err;
}

TEST(a_root_is_that_of_the_process_that_uses_the_ring)
{
    process mine, theirs;
    mrd_safe_open_claim claim;
    int root = -1;

    need_root();
    folder("victim", VICTIM, 0700);
    mine = start("ring.mine", OWNER, false);
    theirs = start("ring.theirs", VICTIM, false);
    claim = claim_of(&mine, mine.pid, OWNER);
    CHECK_ERR("his own", root_of(&claim, &root), MRD_OK);
    CHECK(mrd_safe_open_is_our_root("/proc", mine.pid));
    close(root);
    claim = claim_of(&mine, theirs.pid, OWNER);
    CHECK_ERR("another's process, his user", root_of(&claim, &root), MRD_DENIED);
    claim = claim_of(&mine, theirs.pid, VICTIM);
    CHECK_ERR("another's process and user, his ring", root_of(&claim, &root), MRD_DENIED);
    claim = claim_of(&mine, mine.pid, VICTIM);
    CHECK_ERR("a ring of another user", root_of(&claim, &root), MRD_DENIED);
    claim = claim_of(&mine, 1, 0);
    CHECK_ERR("the first process", root_of(&claim, &root), MRD_DENIED);
    claim = claim_of(&mine, mine.pid, OWNER);
    end(&mine);
    end(&theirs);
    CHECK_ERR("it has ended", root_of(&claim, &root), MRD_NOTFOUND);
}

/* The root of the process is opened once. All its paths are resolved there only, even after the
 * process exited. */
TEST(a_container_is_looked_into_through_its_own_root)
{
    mrd_safe_open_claim claim;
    mrd_why why;
    int root = -1, dir = -1, fd = -1;
    struct stat st;
    process p;

    lay_out();
    p = start("ring.mine", OWNER, true);
    claim = claim_of(&p, p.pid, OWNER);
    REQUIRE(root_of(&claim, &root) == MRD_OK);
    CHECK(!mrd_safe_open_is_our_root("/proc", p.pid));
    CHECK(taken(root, &owner, "/mnt/cap", "inside.ntff", &why) != NULL);
    CHECK(taken(root, &owner, "/mnt/bound", "key.ntff", &why) == NULL); /* a bind mount */
    CHECK(taken(root, &owner, "/mnt/bound/open", "mine.ntff", &why) == NULL);
    CHECK(taken(root, &owner, "/mnt/absolute", "key.ntff", &why) == NULL);
    CHECK_ERR("held", mrd_safe_open_dir(root, "/mnt/cap", &owner, &dir, &why), MRD_OK);
    end(&p);
    CHECK_ERR("its folder outlives it",
              mrd_safe_open_file(dir, "inside.ntff", &owner, &fd, &st, &why), MRD_OK);
    close(fd);
    close(dir);
    close(root);
}

TEST_MAIN()
