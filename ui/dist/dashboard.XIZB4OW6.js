import"./c.B6R7XJ42.js";import"./c.KDTEMGOX.js";import"./c.KZABUYGB.js";import"./c.4RURIWL3.js";import"./c.NIMKLZQK.js";import"./c.7KAYMKQK.js";import"./c.LRODMJYA.js";
