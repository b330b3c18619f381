# SPDX-License-Identifier: Apache-2.0
"""Architectures of transformers with random weights, tiny, for torch.compile's tests.

    model, inputs = architecture("Llama")
    model.eval()(**inputs(batch=2, length=7))

A row has the inputs' kind, the arguments of the configuration, and the model's class where its name
is not the row's with "Model" behind. Dropouts are off: their numbers differ between f32 and f64.
"""

import os
import warnings

import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
WORDS = 50


def small(**more):
    return dict(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                intermediate_size=64, max_position_embeddings=64) | more  # fmt: skip


def grouped(**more):
    return small(num_key_value_heads=2, use_cache=False, pad_token_id=0, bos_token_id=1,
                 eos_token_id=2) | more  # fmt: skip


def experts(**more):
    return grouped(num_experts_per_tok=2, output_router_logits=False) | more


def gpt(**more):
    return dict(vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=64,
                use_cache=False) | more  # fmt: skip


def pair(**more):
    return dict(vocab_size=WORDS, d_model=32, encoder_layers=2, decoder_layers=2,
                encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
                decoder_ffn_dim=64, max_position_embeddings=64, use_cache=False, pad_token_id=1,
                bos_token_id=0, eos_token_id=2, decoder_start_token_id=2,
                forced_eos_token_id=2) | more  # fmt: skip


def image(**more):
    return dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                image_size=32, patch_size=8) | more  # fmt: skip


def pyramid(**more):
    return dict(num_channels=3, hidden_sizes=[8, 16], depths=[1, 1]) | more


def sound(**more):
    return small(conv_dim=(8, 8), conv_stride=(2, 2), conv_kernel=(4, 3), num_feat_extract_layers=2,
                 num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2,
                 mask_time_prob=0.0, apply_spec_augment=False) | more  # fmt: skip


T5 = {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
      "use_cache": False}  # fmt: skip
DISTIL = {"vocab_size": WORDS, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}
CTRL = {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "dff": 64, "n_positions": 64}
XLNET = {"vocab_size": WORDS, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}
XLM = {
    "vocab_size": WORDS,
    "emb_dim": 32,
    "n_layers": 2,
    "n_heads": 4,
    "max_position_embeddings": 64,
}
FUNNEL = {"vocab_size": WORDS, "block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8,
          "d_inner": 64}  # fmt: skip
MOBILE = small(intra_bottleneck_size=16, embedding_size=16, true_hidden_size=16)
TEXT, BARE, IMAGE, PAIR, SOUND, MEL = "text", "bare", "image", "pair", "sound", "mel"
ARCHITECTURES = {
    # encoders of text
    "Bert": (TEXT, small()),
    "Roberta": (TEXT, small()),
    "Camembert": (TEXT, small()),
    "XLMRoberta": (TEXT, small()),
    "DistilBert": (TEXT, DISTIL),
    "Electra": (TEXT, small(embedding_size=16)),
    "Albert": (TEXT, small(embedding_size=16)),
    "MPNet": (TEXT, small()),
    "Ernie": (TEXT, small()),
    "RoFormer": (TEXT, small(embedding_size=32)),
    "MobileBert": (TEXT, MOBILE),
    "SqueezeBert": (TEXT, small(embedding_size=32)),
    "MegatronBert": (TEXT, small()),
    "ConvBert": (TEXT, small(embedding_size=32)),
    "Nystromformer": (TEXT, small(num_landmarks=4, segment_means_seq_len=4)),
    "FNet": (BARE, small()),
    "LayoutLM": (TEXT, small()),
    "Splinter": (TEXT, small()),
    "Deberta": (TEXT, small(relative_attention=True, pos_att_type="c2p|p2c")),
    "DebertaV2": (TEXT, small(relative_attention=True, pos_att_type="c2p|p2c")),
    "ModernBert": (TEXT, small(pad_token_id=0, reference_compile=False)),
    "Funnel": (TEXT, FUNNEL),
    "XLNet": (TEXT, XLNET),
    "XLM": (TEXT, XLM),
    "T5Encoder": (TEXT, T5),
    "CLIPText": (TEXT, small()),
    # decoders of text
    "GPT2": (TEXT, gpt()),
    "GPTJ": (TEXT, gpt(rotary_dim=4)),
    "CodeGen": (TEXT, gpt(rotary_dim=4)),
    "GPTBigCode": (TEXT, gpt()),
    "GPTNeo": (TEXT, small(num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]],
                           use_cache=False)),
    "GPTNeoX": (TEXT, small(use_cache=False)),
    "CTRL": (TEXT, CTRL | {"use_cache": False}),
    "OPT": (TEXT, small(ffn_dim=64, word_embed_proj_dim=32, use_cache=False)),
    "BioGpt": (TEXT, small(use_cache=False)),
    "XGLM": (TEXT, {"vocab_size": WORDS, "d_model": 32, "num_layers": 2, "attention_heads": 4,
                    "ffn_dim": 64, "use_cache": False}),
    "Bloom": (TEXT, {"vocab_size": WORDS, "hidden_size": 32, "n_layer": 2, "n_head": 4,
                     "use_cache": False}),
    "Falcon": (TEXT, small(use_cache=False)),
    "Mpt": (TEXT, {"vocab_size": WORDS, "d_model": 32, "n_layers": 2, "n_heads": 4,
                   "max_seq_len": 64, "use_cache": False}),
    "Llama": (TEXT, grouped()),
    "Mistral": (TEXT, grouped()),
    "Qwen2": (TEXT, grouped()),
    "Qwen3": (TEXT, grouped(head_dim=8)),
    "Gemma": (TEXT, grouped(head_dim=8)),
    "Gemma2": (TEXT, grouped(head_dim=8, sliding_window=4)),
    "Gemma3Text": (TEXT, grouped(head_dim=8, sliding_window=4)),
    "Phi": (TEXT, small(use_cache=False)),
    "Phi3": (TEXT, grouped()),
    "Olmo": (TEXT, grouped()),
    "Olmo2": (TEXT, grouped()),
    "StableLm": (TEXT, grouped()),
    "Starcoder2": (TEXT, grouped()),
    "Cohere": (TEXT, grouped()),
    "Granite": (TEXT, grouped()),
    "Nemotron": (TEXT, grouped()),
    "Glm": (TEXT, grouped(head_dim=8)),
    "SmolLM3": (TEXT, grouped()),
    "Mixtral": (TEXT, experts(num_local_experts=4)),
    "Qwen2Moe": (TEXT, experts(num_experts=4, moe_intermediate_size=16,
                               shared_expert_intermediate_size=16)),
    "Mamba": (TEXT, {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2,
                     "state_size": 4, "use_cache": False}),
    # encoders with decoders
    "Bart": (PAIR, pair()),
    "MBart": (PAIR, pair()),
    "Pegasus": (PAIR, pair()),
    "Marian": (PAIR, pair()),
    "BlenderbotSmall": (PAIR, pair()),
    "M2M100": (PAIR, pair()),
    "T5": (PAIR, T5),
    # images
    "ViT": (IMAGE, image()),
    "DeiT": (IMAGE, image()),
    "Beit": (IMAGE, image(use_relative_position_bias=True)),
    "Dinov2": (IMAGE, image(mlp_ratio=2)),
    "CLIPVision": (IMAGE, image()),
    "SiglipVision": (IMAGE, image()),
    "Swin": (IMAGE, {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [1, 1],
                     "num_heads": [2, 4], "window_size": 4}),
    "ConvNext": (IMAGE, pyramid(num_stages=2)),
    "ResNet": (IMAGE, pyramid(embedding_size=8, layer_type="basic")),
    "RegNet": (IMAGE, pyramid(embedding_size=8, groups_width=8)),
    "PoolFormer": (IMAGE, {"hidden_sizes": [8, 16, 16, 16], "depths": [1] * 4}),
    "Segformer": (IMAGE, {"hidden_sizes": [8, 16], "depths": [1, 1], "num_encoder_blocks": 2,
                          "num_attention_heads": [1, 2], "sr_ratios": [2, 1], "patch_sizes": [7, 3],
                          "strides": [4, 2], "mlp_ratios": [2, 2]}),
    "MobileNetV2": (IMAGE, {"depth_multiplier": 0.25, "image_size": 32, "output_stride": 8,
                            "finegrained_output": False}),
    # sound
    "Wav2Vec2": (SOUND, sound()),
    "Hubert": (SOUND, sound()),
    "WhisperEncoder": (MEL, pair(num_mel_bins=8, max_source_positions=20)),
}  # fmt: skip
"""name: (kind of its inputs, arguments of its configuration)"""


def _model_class(name):
    import transformers

    if name == "WhisperEncoder":
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        return WhisperEncoder
    return getattr(transformers, f"{name}Model")


def _inputs(kind, batch, length):
    def words(count):
        return torch.randint(3, WORDS, (batch, count))

    if kind == IMAGE:
        return {"pixel_values": torch.randn(batch, 3, 32, 32)}
    if kind == SOUND:
        return {"input_values": torch.randn(batch, 40 + 8 * length)}
    if kind == MEL:
        return {"input_features": torch.randn(batch, 8, 40)}
    given = {"input_ids": words(length)}
    if kind != BARE:
        given["attention_mask"] = torch.ones(batch, length).long()
    if kind == PAIR:
        given["decoder_input_ids"] = words(length + 2)
    return given


def architecture(name):
    """The model of a row, and the function of batch and length that makes its inputs."""
    kind, arguments = ARCHITECTURES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = _model_class(name)
        config = made.config_class(**arguments)
        for key, value in vars(config).items():
            if isinstance(value, float) and ("drop" in key) and "scale" not in key:
                setattr(config, key, 0.0)
        model = made(config)
    return model, lambda batch, length: _inputs(kind, batch, length)
