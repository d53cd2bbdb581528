/* cli/client/cluster_print.c - prints answers of the aggregator on a terminal, without control
 * characters */
#include "cli/client/cluster.h"

#include <stdlib.h>

#include "base/obj.h"

void
mrd_cluster_say(FILE *to, const char *text)
{
    char *copy = mrd_str_dup(mrd_str_of(text));

    if (copy == NULL)
        return;
    mrd_text_plain(copy);
    fprintf(to, "%s\n", copy);
    free(copy);
}

/* Copies a text into one of several static buffers, because one message may print several texts. */
static const char *
shown(mrd_str from)
{
    static char texts[8][512];
    static unsigned next;
    char *text = texts[next++ % MRD_COUNT(texts)];

    snprintf(text, sizeof(texts[0]), MRD_STR_FMT, MRD_STR_ARG(from));
    mrd_text_plain(text);
    return text;
}

const char *
mrd_cluster_shown(const mrd_json *object, const char *key, const char *def)
{
    return shown(mrd_str_of(mrd_json_str(object, key, def)));
}

const char *
mrd_cluster_shown_at(const mrd_json *array, size_t i)
{
    mrd_str text = MRD_STR("?");
    char scratch[64];

    (void) mrd_json_text(mrd_json_at(array, i), scratch, &text);
    return shown(text);
}

void
mrd_cluster_print_json(const mrd_json *doc)
{
    mrd_buf text = { 0 };

    mrd_json_write(doc, true, &text);
    mrd_text_show_json((mrd_str){ (const char *) text.p, text.len }, stdout);
    putchar('\n');
    mrd_buf_fini(&text);
}

void
mrd_cluster_print_list(const mrd_json *doc, const char *key, bool json,
                       const mrd_text_table_column *columns, size_t n_columns,
                       void (*row)(mrd_text_table *texts, const mrd_json *member), const char *none)
{
    mrd_text_table texts = { columns, n_columns, { 0 } };
    const mrd_json *list = mrd_json_get(doc, key);

    for (size_t i = 0; i < mrd_json_size(list); i++)
        row(&texts, mrd_json_at(list, i));
    if (json)
        mrd_cluster_print_json(doc);
    else if (mrd_json_size(list) > 0)
        mrd_text_table_print(&texts, stdout);
    else
        printf("%s\n", none);
    mrd_text_table_fini(&texts);
}
