#include "trace/model/arg_keys.h"

#include "base/obj.h"

static const char *const texts[MRD_ARG_KEYS] = {
#define MRD_ARG_COLUMN(ident, spelling, ...) [MRD_KEY_##ident] = (spelling),
#define MRD_ARG_KEY(ident, spelling, ...)    [MRD_KEY_##ident] = (spelling),
#define MRD_ARG_ALSO(ident, spelling, ...)
#include "trace/model/arg_keys.def"
#undef MRD_ARG_COLUMN
#undef MRD_ARG_KEY
#undef MRD_ARG_ALSO
};

static const mrd_arg_class classes[MRD_ARG_KEYS] = {
#define MRD_ARG_COLUMN(ident, ...)               [MRD_KEY_##ident] = MRD_ARG_CLASS_INT,
#define MRD_ARG_KEY(ident, spelling, class, ...) [MRD_KEY_##ident] = MRD_ARG_CLASS_##class,
#define MRD_ARG_ALSO(ident, spelling, ...)
#include "trace/model/arg_keys.def"
#undef MRD_ARG_COLUMN
#undef MRD_ARG_KEY
#undef MRD_ARG_ALSO
};

/* All spellings of the arguments that have a column of their own. */
static const struct {
    const char *text;
    uint8_t column;
} spellings[] = {
#define MRD_ARG_COLUMN(ident, spelling, ...) { spelling, MRD_KEY_##ident },
#define MRD_ARG_KEY(ident, spelling, ...)
#define MRD_ARG_ALSO(ident, spelling, ...) { spelling, MRD_KEY_##ident },
#include "trace/model/arg_keys.def"
#undef MRD_ARG_COLUMN
#undef MRD_ARG_KEY
#undef MRD_ARG_ALSO
};

const char *
mrd_arg_key_text(mrd_arg_key key)
{
    return texts[key];
}

mrd_arg_class
mrd_arg_key_class(mrd_arg_key key)
{
    return classes[key];
}

mrd_sid
mrd_arg_key_find(const mrd_strtab *strings, mrd_arg_key key)
{
    return mrd_strtab_find(strings, mrd_str_of(texts[key]));
}

mrd_sid
mrd_arg_key_add(mrd_strtab *strings, mrd_arg_key key)
{
    return mrd_strtab_addz(strings, texts[key]);
}

void
mrd_arg_key_columns(const mrd_strtab *strings, uint8_t *column_of, size_t n)
{
    for (size_t i = 0; i < MRD_COUNT(spellings); i++) {
        mrd_sid key = mrd_strtab_find(strings, mrd_str_of(spellings[i].text));

        if (key != MRD_SID_EMPTY && key < n)
            column_of[key] = spellings[i].column;
    }
}
