/* `meridian invite` and `meridian join`: get a certificate for a node and keep it valid. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/obj.h"
#include "base/sys/out.h"
#include "base/sys/secret.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"
#include "pki/csr.h"

/* ---- meridian invite ---- */

typedef struct {
    mrd_client_options client;
    mrd_dur_ns expires;
} invite_settings;

static const mrd_opt invite_table[] = {
    { .name = "expires",
      .type = MRD_OPT_DUR,
      .offset = offsetof(invite_settings, expires),
      .def = "1h",
      .min = MRD_SEC,
      .max = 30 * 86400 * MRD_SEC,
      .arg = "DURATION",
      .help = "how long the invitation can be used" },
    MRD_CLIENT_OPTION_ROWS(invite_settings, client),
};

static mrd_err
invite(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    const invite_settings *set = self;
    mrd_json *body = mrd_json_new_object(), *reply = NULL;
    mrd_err err;

    (void) ret_status;
    if (word != NULL && *word == '\0') {
        mrd_json_free(body);
        return mrd_why_set(
            why, MRD_INVALID, 0,
            "INSTANCE is empty: give a name, or none for an invitation that any node "
            "can use");
    }
    if (word != NULL)
        mrd_json_set(body, "instance", mrd_json_new_str(word));
    mrd_json_set(body, "expires", mrd_json_new_int(set->expires));
    err = mrd_client_call(client, "POST", "/api/v1/invitations", body, &reply, why);
    mrd_json_free(body);
    if (err == MRD_OK && set->client.json)
        mrd_cluster_print_json(reply);
    /* prints nothing but the invitation, so that the output can go to a file with mode 0600 */
    else if (err == MRD_OK)
        printf("%s\n", mrd_cluster_shown(reply, "invitation", ""));
    mrd_json_free(reply);
    return err;
}

int
mrd_cmd_invite(int argc, char **argv)
{
    invite_settings set = { 0 };
    mrd_cluster_command command = {
        .name = "invite",
        .usage = "[INSTANCE] [--expires DURATION] [options]",
        .more = "Prints an invitation, with which that node (without INSTANCE: any) may ask once "
                "for its certificate:\n"
                "  meridian invite i-0abc > invitation      (an administrator)\n"
                "  meridian join --instance-id i-0abc --invitation invitation -d DIR   (there)\n",
        .table = invite_table,
        .rows = MRD_COUNT(invite_table),
        .settings = &set,
        .client = &set.client,
        .min_words = 0,
        .max_words = 1,
        .run = invite
    };

    return mrd_cluster_main(&command, argc, argv);
}

/* ---- meridian join ---- */

typedef struct {
    mrd_client_options client;
    char *dir, *instance, *invitation;
    bool renew;
    char *key_path, *cert_path;
} join_settings;

static const mrd_opt join_table[] = {
    { .name = "dir",
      .letter = 'd',
      .type = MRD_OPT_STR,
      .offset = offsetof(join_settings, dir),
      .def = "/etc/meridian",
      .arg = "DIR",
      .help = "where agent.key and agent.pem are kept, the key and certificate of meridian-agent" },
    { .name = "instance-id",
      .type = MRD_OPT_STR,
      .offset = offsetof(join_settings, instance),
      .arg = "ID",
      .env = "MERIDIAN_INSTANCE_ID",
      .help = "instance id of this node, as the agent's; the certificate names it" },
    { .name = "invitation",
      .type = MRD_OPT_STR,
      .offset = offsetof(join_settings, invitation),
      .arg = "FILE",
      .help = "file with the invitation, for a first certificate or after the last one expired" },
    { .name = "renew",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(join_settings, renew),
      .help = "renew the certificate now, however long it is still valid" },
    MRD_CLIENT_OPTION_ROWS(join_settings, client),
};

/* Reads the existing certificate if there is one, because a valid certificate authenticates the
 * request for a new one. Also gets the remaining and the total time of its validity. */
static mrd_err
have(const join_settings *set, mrd_buf *to, mrd_dur_ns *ret_left, mrd_dur_ns *ret_all, mrd_why *why)
{
    FILE *file = fopen(set->cert_path, "re");
    char part[MRD_CSR_MAX];
    size_t n;
    mrd_err err;

    *ret_left = 0;
    if (file == NULL)
        return MRD_OK;
    n = fread(part, 1, sizeof(part), file);
    fclose(file);
    mrd_buf_add(to, part, n);
    if ((err = mrd_csr_validity(set->cert_path, ret_left, ret_all, why)) != MRD_OK)
        return err;
    return to->err;
}

static mrd_err
first_body(const join_settings *set, mrd_json *body, mrd_why *why)
{
    char *token = NULL;
    mrd_err err;

    if (set->invitation == NULL)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "%s is not there or has expired: --invitation FILE, which an "
                           "administrator makes with `meridian invite %s`",
                           set->cert_path, set->instance);
    if ((err = mrd_secret_read("invitation", set->invitation, &token, why)) != MRD_OK)
        return err;
    mrd_json_set(body, "invitation", mrd_json_new_str(token));
    mrd_json_set(body, "instance", mrd_json_new_str(set->instance));
    mrd_secret_free(token);
    return MRD_OK;
}

/* Stores the new certificate if it belongs to this key and name. Until then the old files stay. */
static mrd_err
store(const join_settings *set, const mrd_json *reply, mrd_why *why)
{
    mrd_str cert = mrd_str_of(mrd_json_str(reply, "certificate", ""));
    mrd_err err = mrd_csr_fits(cert, set->key_path, set->instance, why);

    if (err != MRD_OK)
        return mrd_why_prefix(why, err, "the aggregator's answer");
    return mrd_write_file_durable(set->cert_path, (mrd_bytes){ (const uint8_t *) cert.p, cert.len },
                                  0644, why);
}

static mrd_err
ask(const join_settings *set, mrd_client *client, mrd_buf *cert, bool renew, mrd_why *why)
{
    mrd_json *body = mrd_json_new_object(), *reply = NULL;
    mrd_buf request = { 0 };
    mrd_err err = MRD_OK;

    if (renew)
        mrd_json_set(body, "certificate", mrd_json_new_str(mrd_buf_cstr(cert)));
    else
        err = first_body(set, body, why);
    if (err == MRD_OK)
        err = mrd_csr_make(set->key_path, set->instance, &request, why);
    if (err == MRD_OK) {
        mrd_json_set(body, "request", mrd_json_new_str(mrd_buf_cstr(&request)));
        err = mrd_client_call(client, "POST", "/api/v1/certificates", body, &reply, why);
    }
    if (err == MRD_OK)
        err = store(set, reply, why);
    mrd_json_free(reply);
    mrd_json_free(body);
    mrd_buf_fini(&request);
    return err;
}

static char *
path_in(const char *dir, const char *file)
{
    mrd_buf path = { 0 };

    mrd_buf_fmt(&path, "%s/%s", dir, file);
    mrd_buf_cstr(&path);
    if (path.err == MRD_OK)
        return (char *) path.p;
    mrd_buf_fini(&path);
    return NULL;
}

static mrd_err
join(void *self, mrd_client *client, const char *word, int *ret_status, mrd_why *why)
{
    join_settings *set = self;
    mrd_dur_ns left = 0, all = 0;
    mrd_buf cert = { 0 };
    bool renew;
    mrd_err err;

    (void) word;
    (void) ret_status;
    if (set->instance == NULL) {
        return mrd_why_set(why, MRD_INVALID, 0,
                           "which node is this? Give its --instance-id, such as i-0abc");
    }
    set->key_path = path_in(set->dir, "agent.key");
    set->cert_path = path_in(set->dir, "agent.pem");
    if (set->key_path == NULL || set->cert_path == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "%s", set->dir);
    else
        err = have(set, &cert, &left, &all, why);
    renew = err == MRD_OK && left > 0;
    if (renew)
        err = mrd_csr_fits((mrd_str){ (const char *) cert.p, cert.len }, set->key_path,
                           set->instance, why);
    if (err == MRD_OK && renew && !set->renew && left > all / 3) {
        printf("%s is valid for %" PRId64 " more hours: nothing to do\n", set->cert_path,
               (int64_t) (left / (3600 * MRD_SEC)));
    } else if (err == MRD_OK && (err = ask(set, client, &cert, renew, why)) == MRD_OK &&
               (err = mrd_csr_validity(set->cert_path, &left, &all, why)) == MRD_OK) {
        printf("%s was %s, and is valid for %" PRId64 " hours\n", set->cert_path,
               renew ? "renewed" : "signed", (int64_t) (left / (3600 * MRD_SEC)));
    }
    mrd_buf_fini(&cert);
    free(set->key_path);
    free(set->cert_path);
    return err;
}

int
mrd_cmd_join(int argc, char **argv)
{
    join_settings set = { 0 };
    mrd_cluster_command command = {
        .name = "join",
        .usage = "--instance-id ID [--invitation FILE] [-d DIR] [options]",
        .more =
            "On a node, as the user of its agent: makes a key, and has its certificate signed by "
            "the aggregator.\n"
            "Run it once a day: it renews the certificate when two thirds of its life are over, "
            "and the agent\nreads the new one without a restart.\n",
        .table = join_table,
        .rows = MRD_COUNT(join_table),
        .settings = &set,
        .client = &set.client,
        .min_words = 0,
        .max_words = 0,
        .run = join
    };

    return mrd_cluster_main(&command, argc, argv);
}
