import"./c.6TPQV3KW.js";import"./c.KZABUYGB.js";import"./c.4RURIWL3.js";import"./c.NIMKLZQK.js";import"./c.7KAYMKQK.js";import"./c.LRODMJYA.js";
