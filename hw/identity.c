#include "hw/identity.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/num.h"
#include "base/obj.h"
#include "hw/hw_table.h"
#include "hw/proc.h"

/* ---- Identity of the node ---- */

static bool
plain_id(mrd_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!isalnum((unsigned char) text.p[i]) && strchr("._-", text.p[i]) == NULL)
            return false;
    return text.len > 0 && text.len <= 128 && text.p[0] != '.';
}

static void
first_word_of(const char *dir, const char *file, char *to, size_t size)
{
    mrd_buf text = { 0 };
    mrd_str rest;

    if (mrd_hw_read(dir, file, &text)) {
        rest = (mrd_str){ (char *) text.p, text.len };
        rest = mrd_hw_word(&rest);
        if (rest.len < size)
            snprintf(to, size, MRD_STR_FMT, MRD_STR_ARG(rest));
    }
    mrd_buf_fini(&text);
}

/* Makes the node's id from a hash of the machine id. The machine id itself must stay private
 * (machine-id(5)). */
static bool
from_machine_id(const char *path, mrd_node_identity *node)
{
    char id[64] = "", hex[MRD_SHA256_HEX];
    mrd_sha256 *sha;

    first_word_of(path, "", id, sizeof(id));
    if (strlen(id) < 16 || (sha = mrd_sha256_new()) == NULL)
        return false;
    mrd_sha256_add(sha, "meridian", 8);
    mrd_sha256_add(sha, id, strlen(id));
    mrd_sha256_hex(sha, hex);
    mrd_sha256_free(sha);
    snprintf(node->instance_id, sizeof(node->instance_id), "m-%.17s", hex);
    node->source = "machine-id";
    return true;
}

static bool
from_imds(const mrd_node_options *options, mrd_node_identity *node)
{
    mrd_why why = { 0 };
    mrd_dur_ns timeout = options->timeout == 0 ? MRD_IMDS_TIMEOUT : options->timeout;

    if (timeout < 0) {
        snprintf(node->note, sizeof(node->note), "instance metadata was not asked");
        return false;
    }
    if (mrd_imds_read(options->endpoint, timeout, &node->imds, &why) != MRD_OK) {
        snprintf(node->note, sizeof(node->note), "%.250s", why.text);
        return false;
    }
    snprintf(node->instance_id, sizeof(node->instance_id), "%s", node->imds.instance_id);
    node->source = "imds";
    return true;
}

mrd_err
mrd_node_identify(const mrd_node_options *options, mrd_node_identity *ret_node, mrd_why *why)
{
    mrd_node_identity node = { 0 };

    if (gethostname(node.host_name, sizeof(node.host_name) - 1) != 0)
        node.host_name[0] = '\0';
    first_word_of(options->proc_root == NULL ? "/proc" : options->proc_root,
                  "sys/kernel/random/boot_id", node.boot_id, sizeof(node.boot_id));
    if (options->instance_id != NULL && *options->instance_id != '\0') {
        if (!plain_id(mrd_str_of(options->instance_id)))
            return mrd_why_set(why, MRD_INVALID, 0,
                               "instance id '%.64s': 1 to 128 of letters, digits, '.', '_', '-' "
                               "and no leading dot",
                               options->instance_id);
        snprintf(node.instance_id, sizeof(node.instance_id), "%s", options->instance_id);
        node.source = "option";
    } else if (!from_imds(options, &node) &&
               !from_machine_id(
                   options->machine_id == NULL ? "/etc/machine-id" : options->machine_id, &node)) {
        if (!plain_id(mrd_str_of(node.host_name)))
            return mrd_why_set(why, MRD_NOTFOUND, 0,
                               "this node has no name: %s; no machine-id; give --instance-id",
                               node.note);
        snprintf(node.instance_id, sizeof(node.instance_id), "%.128s", node.host_name);
        node.source = "host name";
    }
    *ret_node = node;
    return MRD_OK;
}

/* ---- Identity of a process ---- */

void
mrd_ident_init(mrd_ident *id)
{
    *id = (mrd_ident){ .pid = MRD_NONE,
                       .container_pid = MRD_NONE,
                       .start_ticks = MRD_NONE,
                       .rank = MRD_NONE,
                       .world_size = MRD_NONE,
                       .uid = MRD_NONE };
}

/* Copies a text and replaces control characters by spaces. Invalid UTF-8 is repaired later, when
 * the text is added to the names of a profile. */
static void
set_text(char *to, size_t size, mrd_str text)
{
    size_t n = text.len < size - 1 ? text.len : size - 1;

    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char) text.p[i] < ' ' ? ' ' : text.p[i];
    to[n] = '\0';
}

typedef struct {
    const char *name;
    /* where mrd_ident stores the value; a size of 0 means a number, which must not be negative */
    size_t offset, size;
} env_key;

#define TEXT(name, member)                                                                         \
    {                                                                                              \
        name, offsetof(mrd_ident, member), sizeof(((mrd_ident *) 0)->member)                       \
    }
#define NUMBER(name, member)                                                                       \
    {                                                                                              \
        name, offsetof(mrd_ident, member), 0                                                       \
    }

/* Environment variables that identify a process. If several set the same member of mrd_ident, the
 * first one in this list wins. */
static const env_key env_keys[] = {
    NUMBER("RANK", rank),
    NUMBER("SLURM_PROCID", rank),
    NUMBER("OMPI_COMM_WORLD_RANK", rank),
    NUMBER("PMIX_RANK", rank),
    NUMBER("PMI_RANK", rank),
    NUMBER("WORLD_SIZE", world_size),
    NUMBER("SLURM_NTASKS", world_size),
    NUMBER("OMPI_COMM_WORLD_SIZE", world_size),
    NUMBER("PMI_SIZE", world_size),
    TEXT("MERIDIAN_JOB", job),
    TEXT("SLURM_JOB_ID", job),
    TEXT("SLURM_JOBID", job),
    TEXT("POD_NAME", pod_name),
    TEXT("MY_POD_NAME", pod_name),
    TEXT("POD_UID", pod_uid),
    TEXT("NEURON_RT_INSPECT_OUTPUT_DIR", inspect_dir),
    TEXT("NEURON_RT_VISIBLE_CORES", visible_cores),
    TEXT("NEURON_PROCESS_TAG", process_tag),
    TEXT("MERIDIAN_SESSION", session),
};

static void
set_member(mrd_ident *id, const env_key *key, mrd_str value)
{
    char *at = (char *) id + key->offset;
    int64_t v;

    if (key->size > 0)
        set_text(at, key->size, value);
    else if (mrd_num_i64(value, &v) == MRD_OK && v >= 0)
        memcpy(at, &v, sizeof(v));
}

static bool
member_unset(const mrd_ident *id, const env_key *key)
{
    int64_t v;

    if (key->size > 0)
        return *((const char *) id + key->offset) == '\0';
    memcpy(&v, (const char *) id + key->offset, sizeof(v));
    return v == MRD_NONE;
}

void
mrd_ident_environ(mrd_ident *id, mrd_str text)
{
    mrd_str found[MRD_COUNT(env_keys)] = { { NULL, 0 } };

    mrd_jobid_environ(&id->jobid, text);
    while (text.len > 0) {
        const char *nul = memchr(text.p, '\0', text.len);
        size_t n = nul == NULL ? text.len : (size_t) (nul - text.p);
        const char *eq = memchr(text.p, '=', n);

        for (size_t i = 0; eq != NULL && i < MRD_COUNT(env_keys); i++)
            if (found[i].p == NULL &&
                mrd_str_is((mrd_str){ text.p, (size_t) (eq - text.p) }, env_keys[i].name))
                found[i] = (mrd_str){ eq + 1, n - (size_t) (eq + 1 - text.p) };
        text.p += n + (nul != NULL);
        text.len -= n + (nul != NULL);
    }
    for (size_t i = 0; i < MRD_COUNT(env_keys); i++)
        if (found[i].p != NULL && found[i].len > 0 && member_unset(id, &env_keys[i]))
            set_member(id, &env_keys[i], found[i]);
}

/* ---- Parsing control group paths of kubepods, container runtimes and Slurm ---- */

static bool
next_component(mrd_str *rest, mrd_str *ret_part)
{
    const char *slash;

    while (rest->len > 0 && *rest->p == '/') {
        rest->p++;
        rest->len--;
    }
    if (rest->len == 0)
        return false;
    slash = memchr(rest->p, '/', rest->len);
    *ret_part = (mrd_str){ rest->p, slash == NULL ? rest->len : (size_t) (slash - rest->p) };
    rest->p += ret_part->len;
    rest->len -= ret_part->len;
    return true;
}

/* Returns the number of hexadecimal digits at the start of p. With `dashes`, dashes and underscores
 * count too. */
static size_t
hex_run(const char *p, size_t len, bool dashes)
{
    size_t n = 0;

    while (n < len && (isxdigit((unsigned char) p[n]) || (dashes && strchr("-_", p[n]) != NULL)))
        n++;
    return n;
}

/* Stores the pod uid that a component of a control group path contains. cgroupfs writes
 * "pod1234-...", and systemd writes "...-pod1234_....slice". */
static void
find_pod(char uid[64], mrd_str part)
{
    for (size_t i = 0; i + 3 < part.len && uid[0] == '\0'; i++) {
        size_t n;

        if (memcmp(part.p + i, "pod", 3) != 0 || (i > 0 && part.p[i - 1] != '-'))
            continue;
        n = hex_run(part.p + i + 3, part.len - i - 3, true);
        if (n < 8 || n >= 64)
            continue;
        set_text(uid, 64, (mrd_str){ part.p + i + 3, n });
        for (char *c = uid; *c != '\0'; c++)
            if (*c == '_')
                *c = '-';
    }
}

/* Stores the container id that a component of a control group path contains. It has 64 hexadecimal
 * digits, which stand alone or as in "cri-containerd-<id>.scope" and "docker-<id>.scope". */
static void
find_container(mrd_ident *id, mrd_str part)
{
    for (size_t i = 0; i + 64 <= part.len; i++) {
        size_t n = hex_run(part.p + i, part.len - i, false);

        if (n == 64) {
            set_text(id->container_id, sizeof(id->container_id), (mrd_str){ part.p + i, n });
            return;
        }
        i += n;
    }
}

void
mrd_ident_cgroup(mrd_ident *id, mrd_str path)
{
    char pod[sizeof(id->pod_uid)] = "";
    mrd_str part;

    while (next_component(&path, &part)) {
        int64_t job;

        find_pod(pod, part);
        find_container(id, part);
        if (id->job[0] == '\0' && mrd_str_starts(part, "job_") &&
            mrd_num_i64((mrd_str){ part.p + 4, part.len - 4 }, &job) == MRD_OK && job >= 0)
            set_text(id->job, sizeof(id->job), (mrd_str){ part.p + 4, part.len - 4 });
    }
    /* the pod in the control group's path is more reliable than the one in the environment */
    if (pod[0] != '\0')
        memcpy(id->pod_uid, pod, sizeof(pod));
}

void
mrd_pod_of(const char *proc_root, int64_t pid, char ret_uid[64])
{
    char path[1024];
    mrd_str rest, part;
    bool v2;

    ret_uid[0] = '\0';
    if (mrd_cgroup_of(proc_root == NULL ? "/proc" : proc_root, pid, path, &v2, NULL) != MRD_OK)
        return;
    for (rest = mrd_str_of(path); next_component(&rest, &part);)
        find_pod(ret_uid, part);
}

mrd_err
mrd_pod_find(const char *pod_dir, const char *uid, mrd_jobid *ret_words)
{
    DIR *dir = *uid == '\0' ? NULL : opendir(pod_dir);
    mrd_jobid words = { "" };
    struct dirent *entry;

    while (dir != NULL && words.text[0] == '\0' && (entry = readdir(dir)) != NULL) {
        const char *space = strchr(entry->d_name, '_'), *last = strrchr(entry->d_name, '_');

        if (space == NULL || space == last || strcmp(last + 1, uid) != 0)
            continue;
        (void) mrd_jobid_set(&words, MRD_STR("namespace"),
                             (mrd_str){ entry->d_name, (size_t) (space - entry->d_name) });
        (void) mrd_jobid_set(&words, MRD_STR("pod"),
                             (mrd_str){ space + 1, (size_t) (last - space - 1) });
        (void) mrd_jobid_set(&words, MRD_STR("pod_uid"), mrd_str_of(uid));
    }
    if (dir != NULL)
        closedir(dir);
    if (words.text[0] == '\0')
        return MRD_NOTFOUND;
    *ret_words = words;
    return MRD_OK;
}

void
mrd_ident_status(mrd_ident *id, mrd_str text)
{
    mrd_str line, word;

    while (mrd_hw_line(&text, &line)) {
        mrd_str key = mrd_hw_word(&line);
        int64_t v;
        unsigned levels = 0;

        if (mrd_str_is(key, "Uid:") && mrd_hw_int(mrd_hw_word(&line), &v) && v >= 0)
            id->uid = v;
        if (!mrd_str_is(key, "NSpid:"))
            continue;
        while ((word = mrd_hw_word(&line)).len > 0 && mrd_hw_int(word, &v) && v > 0 &&
               v <= INT32_MAX)
            if (levels++ > 0)
                id->container_pid = v;
    }
}

void
mrd_ident_cmdline(mrd_ident *id, mrd_str text)
{
    size_t n;

    while (text.len > 0 && text.p[text.len - 1] == '\0')
        text.len--;
    /* set_text has replaced the NULs between the arguments by spaces */
    set_text(id->command, sizeof(id->command), text);
    n = strlen(id->command);
    while (n > 0 && id->command[n - 1] == ' ')
        id->command[--n] = '\0';
}

void
mrd_ident_timens(mrd_ident *id, mrd_str text)
{
    mrd_str line;

    while (mrd_hw_line(&text, &line)) {
        mrd_str clock = mrd_hw_word(&line);
        int64_t s, ns, total;

        if (!mrd_hw_int(mrd_hw_word(&line), &s) || !mrd_hw_int(mrd_hw_word(&line), &ns) || ns < 0 ||
            ns >= MRD_SEC || __builtin_mul_overflow(s, MRD_SEC, &total) ||
            __builtin_add_overflow(total, ns, &total))
            continue;
        if (mrd_str_is(clock, "monotonic"))
            id->timens_monotonic_ns = total;
        else if (mrd_str_is(clock, "boottime"))
            id->timens_boottime_ns = total;
    }
}

/* Reads the file <root>/<pid>/<file> and passes its text to `parse`. Returns false and sets errno
 * if the file cannot be read. */
static bool
feed(const char *root, int64_t pid, const char *file, mrd_buf *text, mrd_ident *id,
     void (*parse)(mrd_ident *id, mrd_str text))
{
    char rel[64];

    snprintf(rel, sizeof(rel), "%lld/%s", (long long) pid, file);
    if (!mrd_hw_read(root, rel, text))
        return false;
    parse(id, (mrd_str){ (char *) text->p, text->len });
    return true;
}

mrd_err
mrd_ident_read(const char *proc_root, int64_t pid, mrd_ident *ret_ident, mrd_why *why)
{
    const char *root = proc_root == NULL ? "/proc" : proc_root;
    mrd_proc_stat st;
    mrd_buf text = { 0 };
    mrd_ident id;
    char path[1024];
    ssize_t count;
    bool v2;
    mrd_err err = mrd_proc_read(root, pid, &st, why);

    if (err != MRD_OK)
        return err;
    mrd_ident_init(&id);
    id.pid = pid;
    id.start_ticks = st.start_ticks;
    set_text(id.comm, sizeof(id.comm), mrd_str_of(st.comm));
    (void) feed(root, pid, "status", &text, &id, mrd_ident_status);
    (void) feed(root, pid, "cmdline", &text, &id, mrd_ident_cmdline);
    (void) feed(root, pid, "timens_offsets", &text, &id, mrd_ident_timens);
    id.env_denied = !feed(root, pid, "environ", &text, &id, mrd_ident_environ) && errno == EACCES;
    if (mrd_cgroup_of(root, pid, path, &v2, NULL) == MRD_OK)
        mrd_ident_cgroup(&id, mrd_str_of(path));
    snprintf(path, sizeof(path), "%s/%lld/cwd", root, (long long) pid);
    count = readlink(path, id.cwd, sizeof(id.cwd) - 1);
    id.cwd[count > 0 ? count : 0] = '\0';
    mrd_buf_fini(&text);
    *ret_ident = id;
    return MRD_OK;
}
