"""The library's recurrent layers and attention as TorchScript, by the class that defines them."""

from __future__ import annotations

_STATE = "[self.num_layers * (2 if self.bidirectional else 1), batch, {}]"

#: Methods of modules.
LAYERS = {
    "LSTM": f"""
def forward(self, input: Tensor, hx: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
    single = input.dim() == 2
    x = input.unsqueeze(0 if self.batch_first else 1) if single else input
    if hx is None:
        batch = x.size(0 if self.batch_first else 1)
        h = torch.zeros({_STATE.format("self.proj_size or self.hidden_size")}, dtype=x.dtype, device=x.device)
        c = torch.zeros({_STATE.format("self.hidden_size")}, dtype=x.dtype, device=x.device)
    else:
        h, c = hx
        if single:
            h = h.unsqueeze(1)
            c = c.unsqueeze(1)
    y, last_h, last_c = torch.lstm(x, [h, c], weights_of(self), self.bias, self.num_layers, float(self.dropout), self.training, self.bidirectional, self.batch_first)
    if single:
        y = y.squeeze(0 if self.batch_first else 1)
        last_h = last_h.squeeze(1)
        last_c = last_c.squeeze(1)
    return (y, (last_h, last_c))
""",
    **{kind: f"""
def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    single = input.dim() == 2
    x = input.unsqueeze(0 if self.batch_first else 1) if single else input
    if hx is None:
        batch = x.size(0 if self.batch_first else 1)
        h = torch.zeros({_STATE.format("self.hidden_size")}, dtype=x.dtype, device=x.device)
    else:
        h = hx.unsqueeze(1) if single else hx
    {body}
    if single:
        y = y.squeeze(0 if self.batch_first else 1)
        last = last.squeeze(1)
    return (y, last)
""" for kind, body in (
        ("GRU", "y, last = torch.gru(x, h, weights_of(self), self.bias, self.num_layers, float(self.dropout), self.training, self.bidirectional, self.batch_first)"),
        ("RNN", """if self.mode == "RNN_TANH":
        y, last = torch.rnn_tanh(x, h, weights_of(self), self.bias, self.num_layers, float(self.dropout), self.training, self.bidirectional, self.batch_first)
    else:
        y, last = torch.rnn_relu(x, h, weights_of(self), self.bias, self.num_layers, float(self.dropout), self.training, self.bidirectional, self.batch_first)"""),
    )},
    "LSTMCell": """
def forward(self, input: Tensor, hx: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tensor]:
    single = input.dim() == 1
    x = input.unsqueeze(0) if single else input
    if hx is None:
        h = torch.zeros([x.size(0), self.hidden_size], dtype=x.dtype, device=x.device)
        c = h
    else:
        h, c = hx
        if single:
            h = h.unsqueeze(0)
            c = c.unsqueeze(0)
    y, z = torch.lstm_cell(x, [h, c], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    if single:
        y = y.squeeze(0)
        z = z.squeeze(0)
    return (y, z)
""",
    **{kind: f"""
def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tensor:
    single = input.dim() == 1
    x = input.unsqueeze(0) if single else input
    if hx is None:
        h = torch.zeros([x.size(0), self.hidden_size], dtype=x.dtype, device=x.device)
    else:
        h = hx.unsqueeze(0) if single else hx
    {body}
    return y.squeeze(0) if single else y
""" for kind, body in (
        ("GRUCell", "y = torch.gru_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)"),
        ("RNNCell", """if self.nonlinearity == "tanh":
        y = torch.rnn_tanh_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    else:
        y = torch.rnn_relu_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)"""),
    )},
    "MultiheadAttention": """
def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor] = None, need_weights: bool = True, attn_mask: Optional[Tensor] = None, average_attn_weights: bool = True, is_causal: bool = False) -> Tuple[Tensor, Optional[Tensor]]:
    single = query.dim() == 2
    if single:
        q, k, v = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        padding = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    else:
        padding = key_padding_mask
        if self.batch_first:
            q, k, v = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        else:
            q, k, v = query, key, value
    biases = annotate(List[Tensor], [])
    if self.in_proj_bias is not None:
        biases = self.in_proj_bias.chunk(3)
    extra = annotate(List[Tensor], [])
    if self.bias_k is not None:
        extra = [self.bias_k, self.bias_v]
    if self.in_proj_weight is not None:
        w_q, w_k, w_v = self.in_proj_weight.chunk(3)
    else:
        w_q, w_k, w_v = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
    output, weights = F._attention(q, k, v, self.num_heads, w_q, w_k, w_v, biases, extra, self.add_zero_attn, self.out_proj.weight, self.out_proj.bias, float(self.dropout), self.training, padding, need_weights, attn_mask, average_attn_weights)
    if single:
        if weights is not None:
            weights = weights.squeeze(0)
        return (output.squeeze(1), weights)
    if self.batch_first:
        output = output.transpose(0, 1)
    return (output, weights)
""",
    "TransformerEncoderLayer": """
def _attend(self, x: Tensor, mask: Optional[Tensor], padding: Optional[Tensor]) -> Tensor:
    return self.dropout1(self.self_attn(x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False)[0])

def _feed(self, x: Tensor) -> Tensor:
    return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))

def forward(self, src: Tensor, src_mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None, is_causal: bool = False) -> Tensor:
    x = src
    if self.norm_first:
        x = x + self._attend(self.norm1(x), src_mask, src_key_padding_mask)
        return x + self._feed(self.norm2(x))
    x = self.norm1(x + self._attend(x, src_mask, src_key_padding_mask))
    return self.norm2(x + self._feed(x))
""",
    "TransformerDecoderLayer": """
def _attend(self, x: Tensor, mask: Optional[Tensor], padding: Optional[Tensor]) -> Tensor:
    return self.dropout1(self.self_attn(x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False)[0])

def _look(self, x: Tensor, memory: Tensor, mask: Optional[Tensor], padding: Optional[Tensor]) -> Tensor:
    return self.dropout2(self.multihead_attn(x, memory, memory, attn_mask=mask, key_padding_mask=padding, need_weights=False)[0])

def _feed(self, x: Tensor) -> Tensor:
    return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))

def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor] = None, memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None, memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: bool = False, memory_is_causal: bool = False) -> Tensor:
    x = tgt
    if self.norm_first:
        x = x + self._attend(self.norm1(x), tgt_mask, tgt_key_padding_mask)
        x = x + self._look(self.norm2(x), memory, memory_mask, memory_key_padding_mask)
        return x + self._feed(self.norm3(x))
    x = self.norm1(x + self._attend(x, tgt_mask, tgt_key_padding_mask))
    x = self.norm2(x + self._look(x, memory, memory_mask, memory_key_padding_mask))
    return self.norm3(x + self._feed(x))
""",
    "TransformerEncoder": """
def forward(self, src: Tensor, mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None, is_causal: Optional[bool] = None) -> Tensor:
    x = src
    for layer in self.layers:
        x = layer(x, mask, src_key_padding_mask)
    if self.norm is not None:
        x = self.norm(x)
    return x
""",
    "TransformerDecoder": """
def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor] = None, memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None, memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: Optional[bool] = None, memory_is_causal: bool = False) -> Tensor:
    x = tgt
    for layer in self.layers:
        x = layer(x, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
    if self.norm is not None:
        x = self.norm(x)
    return x
""",
    "Transformer": """
def forward(self, src: Tensor, tgt: Tensor, src_mask: Optional[Tensor] = None, tgt_mask: Optional[Tensor] = None, memory_mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None, memory_key_padding_mask: Optional[Tensor] = None, src_is_causal: Optional[bool] = None, tgt_is_causal: Optional[bool] = None, memory_is_causal: bool = False) -> Tensor:
    memory = self.encoder(src, src_mask, src_key_padding_mask)
    return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
""",
}
