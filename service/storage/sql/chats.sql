-- note_leaf --
-- Of the line, the deepest 16, oldest first, and what each of them saves: an older one would leave
-- more in a request than all of these.
update chats
set leaf_id = leaf.message_id, leaf_tokens = leaf.path_tokens,
    leaf_line = (made.ancestors || made.id)[cardinality(made.ancestors) - 14:],
    leaf_savings = made.savings[cardinality(made.savings) - 15:],
    leaf_windows = made.windows[cardinality(made.windows) - 15:]
from (
    select coalesce(:leaf, kept.leaf_id) as id from chats kept
    where kept.tenant_id = :tenant and kept.id = :chat
) newest
left join messages leaf
    on leaf.tenant_id = :tenant and leaf.chat_id = :chat and leaf.message_id = newest.id
left join checkpoints made
    on made.tenant_id = :tenant and made.chat_id = :chat and made.id = leaf.checkpoint_id
where chats.tenant_id = :tenant and chats.id = :chat
