/* proto/api_names.c - the table of members of API answers and documents that were renamed. */
#include "proto/api_names.h"

#include "base/obj.h"

static const mrd_json_renamed renamed[] = {
    { "sentence", "message" },           { "store_sentence", "store_message" },
    { "unheard", "unacknowledged" },     { "heard", "reported" },
    { "tied_by", "linked_by" },          { "lives", "incarnations" },
    { "stop_wanted", "stop_requested" },
};

mrd_err
mrd_api_present_names(mrd_json *doc, mrd_why *why)
{
    mrd_err err = mrd_json_rename(doc, renamed, MRD_COUNT(renamed));

    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, 0, "members of a JSON document");
}
