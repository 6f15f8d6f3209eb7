"""torch's attention over whole sequences of equal length whose keys and queries have the same rows."""


def heads_of(heads, batch, t):
    """q, k and v as [sequences, heads, length, head_dim], views of the fused rows."""
    count, length = batch
    rows = t["qkv"].view(-1, heads.q_width + 2 * heads.kv_width)[: count * length].view(count, length, -1)
    parts = rows.split([heads.q_width, heads.kv_width, heads.kv_width], 2)
    return (part.unflatten(2, (-1, heads.dim)).transpose(1, 2) for part in parts)


def sdpa(heads, batch, full, bias, torch, t):
    """scaled_dot_product_attention with its flash kernel, which cannot add biases."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = heads_of(heads, batch, t)
    mask, backends = None, [SDPBackend.FLASH_ATTENTION] if q.element_size() == 2 else [SDPBackend.EFFICIENT_ATTENTION]
    if bias:
        table, at = t["bias"].view(heads.num, -1), torch.arange(batch[1], device=q.device)
        mask = table[:, at[:, None] - at + batch[1] - 1].to(q.dtype).expand(batch[0], -1, -1, -1)
        backends = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]

    def run():
        with sdpa_kernel(backends):
            out = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=not full and mask is None, enable_gqa=heads.group > 1)
        return out.transpose(1, 2)

    return run


def disentangled(heads, batch, full, bias, torch, t):
    """Attention with relative position embeddings as in transformers: all products are computed, and each query-key pair picks its own."""
    q, k, v = heads_of(heads, batch, t)
    keys, queries = (t[name].view(-1, heads.num, heads.dim).transpose(0, 1) for name in ("position_keys", "position_queries"))
    at = torch.arange(batch[1], device=q.device)
    rows = t["distance_rows"].long()[at[:, None] - at + batch[1] - 1].expand(batch[0], heads.num, -1, -1)

    def run():
        scores = q @ k.transpose(2, 3)
        scores = scores + torch.gather(q @ keys.transpose(1, 2), 3, rows)
        scores = scores + torch.gather(k @ queries.transpose(1, 2), 3, rows.transpose(2, 3)).transpose(2, 3)
        return (torch.softmax(scores * heads.dim**-0.5, -1) @ v).transpose(1, 2)

    return run
