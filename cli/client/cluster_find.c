/* Finds the session that a word on the command line means. */
#include <stdio.h>
#include <string.h>

#include "base/near.h"
#include "base/obj.h"
#include "cli/client/cluster.h"
#include "cli/term/table.h"

/* Returns how well a session suits `use`; higher is better. "latest" means the session that suits
 * best. If several sessions suit equally well, it means the last of them. */
static int
suits(const mrd_json *json, mrd_cluster_use use)
{
    bool open = mrd_cluster_in(json, "arming|recording|stopping");
    bool begun = !mrd_cluster_in(json, "arming|failed");

    switch (use) {
    case MRD_CLUSTER_END:
        return open ? 2 : begun;
    case MRD_CLUSTER_TRIGGER:
        return mrd_cluster_in(json, "recording") &&
                       strcmp(mrd_json_str(json, "mode", ""), "recorder") == 0
                   ? 2
                   : open;
    case MRD_CLUSTER_READ:
        return begun;
    case MRD_CLUSTER_LOOK:
        break;
    }
    return 0;
}

/* Makes the error that there is no session `word`. The message suggests the name that is most
 * similar. */
static mrd_err
no_session(const mrd_json *list, const char *word, mrd_why *why)
{
    const char *names[1 + 255] = { "latest" };
    char guess[MRD_NEAR_TEXT];
    size_t n = 1;

    for (size_t i = 0; i < mrd_json_size(list) && n < MRD_COUNT(names); i++)
        names[n++] = mrd_json_str(mrd_json_at(list, i), "id", "");
    mrd_near_text(word, names, n, "", guess);
    mrd_text_plain(guess);
    return mrd_why_set(why, MRD_NOTFOUND, 0, "there is no session '%s'%s", word,
                       *guess == '\0' ? ": `meridian sessions` lists them" : guess);
}

mrd_err
mrd_cluster_no_file(const char *word, mrd_err err, mrd_why *why)
{
    static const char *const names[] = { "latest" };
    char guess[MRD_NEAR_TEXT] = "";

    /* A NOTFOUND message already suggests a similar name. */
    if (err != MRD_NOTFOUND && strcmp(word, names[0]) != 0)
        mrd_near_text(word, names, MRD_COUNT(names), "", guess);
    return mrd_why_prefix(why, err, "there is no file '%s'%s looking for a session of this name",
                          word, *guess == '\0' ? ";" : guess);
}

static const mrd_json *
latest_of(const mrd_json *list, mrd_cluster_use use)
{
    const mrd_json *best = NULL;

    for (size_t i = 0; i < mrd_json_size(list); i++) {
        const mrd_json *json = mrd_json_at(list, i);

        if (best != NULL && suits(json, use) != suits(best, use)) {
            best = suits(json, use) > suits(best, use) ? json : best;
            continue;
        }
        if (best == NULL ||
            mrd_json_int(json, "created_ns", 0) >= mrd_json_int(best, "created_ns", 0))
            best = json;
    }
    return best;
}

/* Returns the session with the id `word`. Otherwise returns the session with an id that begins with
 * `word`, if there is just one. */
static const mrd_json *
named(const mrd_json *list, const char *word, size_t *ret_matches)
{
    const mrd_json *found = NULL;

    *ret_matches = 0;
    for (size_t i = 0; i < mrd_json_size(list); i++) {
        const mrd_json *json = mrd_json_at(list, i);
        const char *id = mrd_json_str(json, "id", "");

        if (!mrd_str_starts(mrd_str_of(id), word))
            continue;
        found = json;
        if (++*ret_matches > 0 && strcmp(id, word) == 0) {
            *ret_matches = 1;
            return found;
        }
    }
    return found;
}

mrd_err
mrd_cluster_find(mrd_client *client, const char *word, mrd_cluster_use use,
                 char ret_id[MRD_CLUSTER_ID], mrd_why *why)
{
    mrd_json *doc = NULL;
    const mrd_json *list, *found;
    size_t matches = 1;
    mrd_err err;

    if (word != NULL && *word == '\0') /* an empty text is the beginning of every id */
        return mrd_why_set(why, MRD_INVALID, 0,
                           "the session's name is empty: give its id, the beginning of it, or "
                           "`latest`");
    err = mrd_client_call(client, "GET", "/api/v1/sessions", NULL, &doc, why);
    if (err != MRD_OK)
        return err;
    list = mrd_json_get(doc, "sessions");
    found = word == NULL || strcmp(word, "latest") == 0 ? latest_of(list, use)
                                                        : named(list, word, &matches);
    if (found == NULL && mrd_json_size(list) == 0)
        err = mrd_why_set(why, MRD_NOTFOUND, 0,
                          "the aggregator has no session yet: `meridian record` makes one");
    else if (found == NULL)
        err = no_session(list, word == NULL ? "latest" : word, why);
    else if (matches > 1)
        err = mrd_why_set(why, MRD_INVALID, 0,
                          "%zu sessions begin with '%s': give more of the id (`meridian sessions`)",
                          matches, word);
    else
        snprintf(ret_id, MRD_CLUSTER_ID, "%s", mrd_cluster_shown(found, "id", ""));
    mrd_json_free(doc);
    return err;
}
