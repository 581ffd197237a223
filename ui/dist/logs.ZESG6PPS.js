import"./c.LMSPSXSI.js";import"./c.4RLT6XQG.js";import"./c.7KAYMKQK.js";import"./c.LRODMJYA.js";
