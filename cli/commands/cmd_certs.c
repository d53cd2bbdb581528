/* `meridian certs init|agent|token|renew|show`: makes certificates and tokens for users without a
 * PKI of their own. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf/json.h"
#include "base/hash.h"
#include "base/near.h"
#include "base/obj.h"
#include "base/sys/out.h"
#include "base/sys/user.h"
#include "cli/cli.h"
#include "pki/pki.h"

typedef struct {
    char *dir;
    mrd_strlist hosts;
    int64_t days, ca_days;
    char *user;
} settings;

#define AT(member) .offset = offsetof(settings, member)

static const mrd_opt table[] = {
    { .name = "dir",
      .letter = 'd',
      .type = MRD_OPT_STR,
      AT(dir),
      .def = "meridian-certs",
      .arg = "DIR",
      .env = "MERIDIAN_CERTS",
      .help = "where certificates, keys and tokens are kept" },
    { .name = "host",
      .type = MRD_OPT_LIST,
      AT(hosts),
      .arg = "NAME,...",
      .help = "names and addresses under which the aggregator is reached (localhost and 127.0.0.1 "
              "are added)" },
    { .name = "days",
      .type = MRD_OPT_INT,
      AT(days),
      .def = "365",
      .min = 1,
      .max = 3650,
      .arg = "N",
      .help = "validity of the certificates" },
    { .name = "ca-days",
      .type = MRD_OPT_INT,
      AT(ca_days),
      .def = "3650",
      .min = 1,
      .max = 7300,
      .arg = "N",
      .help = "validity of a new authority" },
    { .name = "user",
      .type = MRD_OPT_STR,
      AT(user),
      .arg = "USER",
      .help = "as root: the user of the daemons, whose group may read keys and tokens of "
              "aggregator and agents (default: meridian, if this user exists)" },
};

static const char more[] =
    "  meridian certs init --host aggregator.example,10.0.0.7\n"
    "      a new authority, the aggregator's certificate, and tokens for readers, operators,\n"
    "      administrators (control) and agents\n"
    "  meridian certs agent i-0abc...        a certificate and a token for one node\n"
    "  meridian certs token operator         one more token of a role: read, operator or admin\n"
    "  meridian certs renew [--host ...]     all certificates again, with the same keys\n"
    "  meridian certs show                   how long each is still good\n"
    "\n"
    "The aggregator and agents read new files without a restart. Keep ca.key off the nodes.\n";

/* Writes 32 random bytes as 64 hexadecimal digits. */
static void
new_token(char text[65])
{
    uint8_t raw[32];

    mrd_random(raw, sizeof(raw));
    for (size_t i = 0; i < sizeof(raw); i++)
        snprintf(text + 2 * i, 3, "%02x", raw[i]);
}

static mrd_err
store_text(const char *dir, const char *file, const char *text, mrd_why *why)
{
    mrd_buf path = { 0 };
    mrd_err err;

    mrd_buf_fmt(&path, "%s/%s", dir, file);
    err = mrd_write_file(mrd_buf_cstr(&path), (mrd_bytes){ (const uint8_t *) text, strlen(text) },
                         0600, why);
    mrd_buf_fini(&path);
    return err;
}

static mrd_err
store_tokens(const char *dir, const mrd_json *doc, mrd_why *why)
{
    mrd_buf text = { 0 };
    mrd_err err;

    mrd_json_write(doc, true, &text);
    mrd_buf_byte(&text, '\n');
    err = store_text(dir, "tokens.json", mrd_buf_cstr(&text), why);
    if (text.p != NULL)
        explicit_bzero(text.p, text.len);
    mrd_buf_fini(&text);
    return err;
}

/* Adds names under which the aggregator is always reachable on its own machine. */
static mrd_err
add_local_hosts(mrd_strlist *hosts)
{
    static const char *const local[] = { "localhost", "127.0.0.1", "::1" };

    for (size_t i = 0; i < MRD_COUNT(local); i++) {
        if (!mrd_strlist_has(hosts, mrd_str_of(local[i])) &&
            mrd_strlist_add(hosts, mrd_str_of(local[i])) != MRD_OK)
            return MRD_NOMEM;
    }
    return MRD_OK;
}

/* Issues the aggregator's certificate. A renewal without --host keeps the host names of the old
 * certificate. */
static mrd_err
issue_aggregator(settings *set, bool renew, mrd_why *why)
{
    bool keep_names = renew && set->hosts.n == 0;
    mrd_pki_request request = { set->dir,     "aggregator",
                                "aggregator", keep_names ? NULL : &set->hosts,
                                set->days,    true };
    mrd_err err = keep_names ? MRD_OK : add_local_hosts(&set->hosts);

    return err != MRD_OK ? mrd_why_set(why, err, 0, "hosts") : mrd_pki_issue(&request, renew, why);
}

static mrd_err
certs_init(settings *set, mrd_why *why)
{
    static const char *const roles[] = { "read", "operator", "control", "agent" };
    mrd_json *tokens = mrd_json_new_object();
    mrd_err err = mrd_pki_authority(set->dir, set->ca_days, why);

    if (err == MRD_OK)
        err = issue_aggregator(set, false, why);
    for (size_t i = 0; i < MRD_COUNT(roles) && err == MRD_OK; i++) {
        mrd_json *list = mrd_json_new_array();
        char token[65], file[32];

        new_token(token);
        mrd_json_append(list, mrd_json_new_str(token));
        mrd_json_set(tokens, roles[i], list);
        snprintf(file, sizeof(file), "%s.token", roles[i]);
        err = store_text(set->dir, file, token, why);
        explicit_bzero(token, sizeof(token));
    }
    if (err == MRD_OK)
        err = store_tokens(set->dir, tokens, why);
    mrd_json_free(tokens);
    if (err == MRD_OK)
        printf("%s now holds:\n"
               "  ca.pem, ca.key                  the authority (keep ca.key here, nowhere else)\n"
               "  aggregator.pem, aggregator.key  for meridian-aggregator --tls-cert, --tls-key\n"
               "  tokens.json                     for meridian-aggregator --tokens\n"
               "  read.token, operator.token,\n"
               "  control.token                   for people: meridian nodes --token-file\n"
               "  agent.token                     for any node; `meridian certs agent ID` binds "
               "one to a node\n",
               set->dir);
    return err;
}

/* Returns true for files that a daemon reads. The key of the authority and the tokens of people stay
 * with root. */
static bool
is_for_daemons(const char *name)
{
    static const char *const whole[] = { "tokens.json", "aggregator.key", "agent.token" };
    mrd_str text = mrd_str_of(name);

    for (size_t i = 0; i < MRD_COUNT(whole); i++) {
        if (strcmp(name, whole[i]) == 0)
            return true;
    }
    return mrd_str_starts(text, "agent-") &&
           (mrd_str_ends(text, ".key") || mrd_str_ends(text, ".token"));
}

static mrd_err
share_file(int dir, const char *name, const mrd_user *user, mrd_why *why)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    mrd_err err = MRD_OK;

    if (fd < 0 || fchown(fd, (uid_t) -1, user->gid) != 0 || fchmod(fd, 0640) != 0)
        err = mrd_why_set(why, MRD_IO, errno, "cannot let group %lld read %s",
                          (long long) user->gid, name);
    if (fd >= 0)
        close(fd);
    return err;
}

/* Lets the user's group enter the directory and read the files of daemons. The directory and its
 * files belong to root, so that a daemon cannot change its own certificate or tokens. */
static mrd_err
share_with(const char *path, const mrd_user *user, mrd_why *why)
{
    DIR *dir = opendir(path);
    mrd_err err = MRD_OK;

    if (dir == NULL || fchown(dirfd(dir), (uid_t) -1, user->gid) != 0 ||
        fchmod(dirfd(dir), 0750) != 0)
        err = mrd_why_set(why, MRD_IO, errno, "cannot let group %lld enter %s",
                          (long long) user->gid, path);
    for (struct dirent *entry; err == MRD_OK && (entry = readdir(dir)) != NULL;) {
        if (is_for_daemons(entry->d_name))
            err = share_file(dirfd(dir), entry->d_name, user, why);
    }
    if (dir != NULL)
        closedir(dir);
    return err;
}

/* The packaged daemons run as the user meridian. Files that root makes would be unreadable for
 * them. */
static mrd_err
share(const settings *set, mrd_why *why)
{
    mrd_user user;
    mrd_why missing = { 0 };
    mrd_err err;

    if (geteuid() != 0)
        return set->user == NULL ? MRD_OK : mrd_why_set(why, MRD_DENIED, 0, "--user needs root");
    err = mrd_user_find(set->user == NULL ? "meridian" : set->user, &user, &missing);
    if (err == MRD_OK) {
        err = share_with(set->dir, &user, why);
        if (err == MRD_OK)
            printf("the group of user %s may read the keys and tokens of aggregator and agents\n",
                   set->user == NULL ? "meridian" : set->user);
        return err;
    }
    if (set->user == NULL)
        return MRD_OK;
    *why = missing;
    return err;
}

static bool
plain_name(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n <= 64 && name[0] != '.' &&
           strspn(name, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_") == n;
}

/* Stores a token for this instance in tokens.json. It replaces the instance's earlier token. */
static mrd_err
bind_token(const char *dir, const char *instance, mrd_why *why)
{
    mrd_buf path = { 0 };
    mrd_json *doc = NULL, *list, *kept = mrd_json_new_array(), *item = mrd_json_new_object();
    char token[65], file[128];
    mrd_err err;

    mrd_buf_fmt(&path, "%s/tokens.json", dir);
    if ((err = mrd_json_load(mrd_buf_cstr(&path), &doc, why)) != MRD_OK)
        goto out;
    new_token(token);
    mrd_json_set(item, "token", mrd_json_new_str(token));
    mrd_json_set(item, "instance", mrd_json_new_str(instance));
    list = mrd_json_get(doc, "agent");
    for (size_t i = 0; list != NULL && i < mrd_json_size(list); i++) {
        mrd_json *old = mrd_json_at(list, i);

        if (!mrd_json_is_object(old) || strcmp(mrd_json_str(old, "instance", ""), instance) != 0)
            mrd_json_append(kept, mrd_json_copy(old));
    }
    mrd_json_append(kept, item);
    item = NULL;
    mrd_json_set(doc, "agent", kept);
    kept = NULL;
    snprintf(file, sizeof(file), "agent-%s.token", instance);
    if ((err = store_text(dir, file, token, why)) == MRD_OK)
        err = store_tokens(dir, doc, why);
    explicit_bzero(token, sizeof(token));
out:
    if (item != NULL)
        mrd_json_free(item);
    if (kept != NULL)
        mrd_json_free(kept);
    mrd_json_free(doc);
    mrd_buf_fini(&path);
    return err;
}

/* Adds a token with a role to tokens.json. Creates the role's list if it is missing, because a
 * directory from an earlier release may have no list for operators. */
static mrd_err
certs_token(settings *set, const char *role, mrd_why *why)
{
    mrd_buf path = { 0 };
    mrd_json *doc = NULL, *list;
    char token[65], file[32];
    mrd_err err;

    if (strcmp(role, "read") != 0 && strcmp(role, "operator") != 0 && strcmp(role, "admin") != 0)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "'%s' is not a role of people: read, operator or admin (a node's token: "
                           "meridian certs agent ID)",
                           role);
    mrd_buf_fmt(&path, "%s/tokens.json", set->dir);
    err = mrd_json_load(mrd_buf_cstr(&path), &doc, why);
    mrd_buf_fini(&path);
    if (err != MRD_OK)
        return err;
    list = mrd_json_is_object(doc) ? mrd_json_get(doc, role) : NULL;
    if (list == NULL && mrd_json_is_object(doc) &&
        mrd_json_set(doc, role, mrd_json_new_array()) == MRD_OK)
        list = mrd_json_get(doc, role);
    if (!mrd_json_is_array(list)) {
        mrd_json_free(doc);
        return mrd_why_set(why, MRD_TYPE, 0, "%s/tokens.json: '%s' must be a list", set->dir, role);
    }
    new_token(token);
    mrd_json_append(list, mrd_json_new_str(token));
    snprintf(file, sizeof(file), "%s.token", role);
    /* Writes the aggregator's file first. Otherwise a user could get a token that the aggregator
     * does not accept. */
    if ((err = store_tokens(set->dir, doc, why)) == MRD_OK &&
        (err = store_text(set->dir, file, token, why)) == MRD_OK)
        printf("%s/%s: one more token; earlier ones of this role count until they are removed "
               "from tokens.json\n",
               set->dir, file);
    explicit_bzero(token, sizeof(token));
    mrd_json_free(doc);
    return err;
}

static mrd_err
certs_agent(settings *set, const char *instance, mrd_why *why)
{
    mrd_buf file = { 0 };
    mrd_pki_request request = { set->dir, instance, NULL, NULL, set->days, false };
    mrd_err err;

    if (!plain_name(instance))
        return mrd_why_set(
            why, MRD_INVALID, 0,
            "'%s' is not an instance id: letters, digits, '.', '-' and '_', at most 64", instance);
    mrd_buf_fmt(&file, "agent-%s", instance);
    request.file = mrd_buf_cstr(&file);
    if ((err = mrd_pki_issue(&request, false, why)) == MRD_OK &&
        (err = bind_token(set->dir, instance, why)) == MRD_OK)
        printf("%s/agent-%s.pem, .key and .token: copy them and ca.pem to that node\n", set->dir,
               instance);
    mrd_buf_fini(&file);
    return err;
}

/* Calls `each` for every certificate in the directory except the authority's, sorted by name. */
static mrd_err
each_certificate(settings *set, mrd_err (*each)(settings *set, const char *file, mrd_why *why),
                 mrd_why *why)
{
    struct dirent **names = NULL;
    int n = scandir(set->dir, &names, NULL, alphasort);
    mrd_err err = MRD_OK;
    bool any = false;

    for (int i = 0; i < n; i++) {
        mrd_str name = mrd_str_of(names[i]->d_name);

        if (err == MRD_OK && mrd_str_ends(name, ".pem")) {
            any = true;
            names[i]->d_name[name.len - 4] = '\0';
            err = each(set, names[i]->d_name, why);
        }
        free(names[i]);
    }
    free(names);
    return any ? err
               : mrd_why_set(why, MRD_NOTFOUND, 0,
                             "no certificates in %s: `meridian certs init` makes them", set->dir);
}

static mrd_err
renew_one(settings *set, const char *file, mrd_why *why)
{
    mrd_pki_request request = { set->dir, file, file, NULL, set->days, false };

    if (strcmp(file, "ca") == 0)
        return MRD_OK;
    if (strcmp(file, "aggregator") == 0)
        return issue_aggregator(set, true, why);
    if (strncmp(file, "agent-", 6) == 0)
        request.name = file + 6;
    return mrd_pki_issue(&request, true, why);
}

static mrd_err
show_one(settings *set, const char *file, mrd_why *why)
{
    mrd_buf path = { 0 };
    int64_t seconds = 0;
    mrd_err err;

    mrd_buf_fmt(&path, "%s/%s.pem", set->dir, file);
    if ((err = mrd_pki_remaining(mrd_buf_cstr(&path), &seconds, why)) == MRD_OK) {
        if (seconds < 0)
            printf("%-40s expired %" PRId64 " day%s ago: meridian certs renew\n", file,
                   -seconds / 86400, mrd_plural((uint64_t) (-seconds / 86400)));
        else
            printf("%-40s %" PRId64 " day%s left\n", file, seconds / 86400,
                   mrd_plural((uint64_t) (seconds / 86400)));
    }
    mrd_buf_fini(&path);
    return err;
}

static int
run(void *self, const mrd_strlist *words)
{
    settings *set = self;
    static const char *const verbs[] = { "init", "agent", "token", "renew", "show" };
    const char *verb = words->v[0], *near;
    mrd_why why = { 0 };
    mrd_err err;

    if (strcmp(verb, "init") == 0 && words->n == 1)
        err = certs_init(set, &why);
    else if (strcmp(verb, "agent") == 0 && words->n == 2)
        err = certs_agent(set, words->v[1], &why);
    else if (strcmp(verb, "token") == 0 && words->n == 2)
        err = certs_token(set, words->v[1], &why);
    else if (strcmp(verb, "renew") == 0 && words->n == 1)
        err = each_certificate(set, renew_one, &why);
    else if (strcmp(verb, "show") == 0 && words->n == 1)
        err = each_certificate(set, show_one, &why);
    else if (strcmp(verb, "agent") == 0) {
        fprintf(stderr, "meridian certs: agent needs the node's instance id: meridian certs agent "
                        "i-0abc\n");
        return MRD_EXIT_USAGE;
    } else if (strcmp(verb, "token") == 0) {
        fprintf(stderr, "meridian certs: token needs a role: meridian certs token operator\n");
        return MRD_EXIT_USAGE;
    } else {
        near = mrd_nearest(verb, verbs, MRD_COUNT(verbs));
        mrd_cli_errorf("certs",
                       "'%s' is unknown: expected init, agent INSTANCE, token ROLE, renew "
                       "or show%s%s%s",
                       words->n > 1 && (near == NULL || strcmp(near, verb) == 0) ? words->v[1]
                                                                                 : verb,
                       near == NULL || strcmp(near, verb) == 0 ? "" : " (did you mean ",
                       near == NULL || strcmp(near, verb) == 0 ? "" : near,
                       near == NULL || strcmp(near, verb) == 0 ? "" : "?)");
        return MRD_EXIT_USAGE;
    }
    if (err == MRD_OK && strcmp(verb, "show") != 0)
        err = share(set, &why);
    if (err != MRD_OK)
        mrd_cli_error("certs", &why);
    return err == MRD_OK ? MRD_EXIT_OK : MRD_EXIT_FAILED;
}

int
mrd_cmd_certs(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cli_frame frame = {
        .usage = "init|agent|token|renew|show [options]",
        .more = more,
        .table = table,
        .rows = MRD_COUNT(table),
        .settings = &set,
        .min_words = 1,
        .max_words = 2,
        .wants = "expected init, agent INSTANCE, token ROLE, renew or show (--help explains)",
        .run = run
    };

    return mrd_cli_main(&frame, argc, argv);
}
